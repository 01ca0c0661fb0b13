"""`coulisse migrate`: Django's command, for a database that servers use meanwhile."""

import time
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands.migrate import Command as DjangoMigrate
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader

from config.management.base import ConfigCommand
from core.runtime.backoff import Backoff
from database import process_lock, schema
from processes.errors import SchemaUnknown
from processes.supervision import state_directory

LOCK_TIMEOUT_SECONDS = 3.0
MAX_TRIES = 20
"""About ten minutes."""


class Command(ConfigCommand, DjangoMigrate):
    """Creates the directory of the SQLite database first.

    One process migrates at a time. A migration that waits too long for a table lets the
    statements behind it pass, and tries again later.
    """

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--lock-timeout",
            type=float,
            default=LOCK_TIMEOUT_SECONDS,
            metavar="SECONDS",
            help="How long a migration may wait for a table that others use, and let "
            f"them wait (default: {LOCK_TIMEOUT_SECONDS:g}); then it retries. "
            "PostgreSQL only.",
        )

    def handle(self, *args: Any, lock_timeout: float, **options: Any) -> None:
        if lock_timeout <= 0:
            raise CommandError("--lock-timeout must be a positive number of seconds")
        state_directory.current_state().prepare()
        with (
            process_lock.held("coulisse_migrate", on_wait=self._note_wait),
            schema.limited_waits(lock_timeout),
        ):
            _refuse_unknown_schema()
            schema.create_pgvector()
            self._try(*args, **options)

    def _note_wait(self) -> None:
        self.write_note("another process migrates this database: waiting for it")

    def _try(self, *args: Any, **options: Any) -> None:
        backoff = Backoff(minimum=1.0, maximum=30.0)
        for is_last in [False] * (MAX_TRIES - 1) + [True]:
            try:
                super().handle(*args, **options)
                return
            except OperationalError as exc:
                if not schema.is_lock_error(exc):
                    raise
                if is_last:
                    raise CommandError(
                        f"a table stays in use ({_first_line(exc)}): end the "
                        "transactions that use it (pg_stat_activity), then run "
                        "`coulisse migrate` again"
                    ) from exc
                pause = backoff.next_seconds()
                reason = _first_line(exc)
                self.write_note(f"\n{reason}: next try in {pause:.0f} s")
            time.sleep(pause)


def _first_line(error: OperationalError) -> str:
    return str(error).partition("\n")[0]


def _refuse_unknown_schema() -> None:
    """Raise `SchemaUnknown` for tables that these migrations cannot upgrade.

    Such a database has migrations of an app that this version does not have, and lacks
    some that it has. A database of a later version lacks none, so it passes.
    """
    loader = MigrationLoader(connection)
    known, applied = set(loader.disk_migrations), set(loader.applied_migrations)
    own = {app.label for app in apps.get_app_configs() if _is_own(app.path)}
    unknown = sorted(key for key in applied - known if key[0] in own)
    behind = {label for label, _ in known - applied}
    names = [f"{label}.{name}" for label, name in unknown if label in behind]
    if names:
        raise SchemaUnknown(
            "this database was created by an earlier version of Coulisse that cannot "
            f"be upgraded (it has the migration {names[0]}). Keep a copy, then delete "
            "the SQLite database with `coulisse reset`, or point DATABASE_URL to an "
            "empty one"
        )


def _is_own(path: str) -> bool:
    return Path(path).parent == settings.BASE_DIR
