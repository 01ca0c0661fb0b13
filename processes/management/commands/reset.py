"""`coulisse reset`: deletes the SQLite database and its queued messages."""

import logging
import shutil
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from access.audit import audit_events
from config.management.base import ConfigCommand
from config.management.database_command import ask_confirmation
from processes.errors import AlreadyRunning, ResetRefused
from processes.supervision import pidfile, state_directory
from processes.supervision.state_directory import describe_path

SUFFIXES = ("", "-wal", "-shm")


class Command(ConfigCommand):
    """Lists the files, asks for confirmation, and deletes them."""

    help = (
        "Delete the SQLite database with all stored data, users' files on the disk, "
        "and the private broker's files."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "-y", "--yes", action="store_true", help="Delete without confirmation."
        )

    def handle(self, **options: Any) -> None:
        state = state_directory.current_state()
        others = (state.broker, state.socket, settings.COULISSE_FILES_DIR)
        files = [*_database_files(), *(path for path in others if path.exists())]
        if not files:
            self.stdout.write("nothing to delete")
            return
        lock = pidfile.PidFile(state.pid)
        try:
            # Held during the prompt, so that no server opens the database meanwhile.
            lock.acquire()
        except AlreadyRunning as exc:
            raise ResetRefused(
                f"the server is running (pid {exc.pid}): stop it first"
            ) from exc
        try:
            self._delete(files, ask=not options["yes"])
        finally:
            lock.release()

    def _delete(self, files: list[Path], *, ask: bool) -> None:
        self.stdout.write("This permanently deletes:")
        for path in files:
            self.stdout.write(f"  {describe_path(path)}")
        if ask and not ask_confirmation("delete them"):
            self.stdout.write("nothing was deleted")
            return
        for path in files:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.stdout.write("deleted")
        log_reset(state_directory.current_state().log)


def log_reset(log: Path) -> None:
    """Record the reset in the server's log, because the audit table is deleted."""
    if not log.exists():
        return
    actor = audit_events.terminal_actor()
    handler = logging.FileHandler(log, encoding="utf-8")
    for other in logging.getLogger().handlers[:1]:
        handler.setFormatter(other.formatter)
    text = "the database and its audit were deleted by %s, %s"
    values = (actor.name, actor.origin)
    handler.handle(
        logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, values, None)
    )
    handler.close()


def _database_files() -> list[Path]:
    """Return the files of the SQLite database that exist.

    Raises `ResetRefused` when the database is not SQLite.
    """
    database = settings.DATABASES["default"]
    if "sqlite" not in database["ENGINE"]:
        raise ResetRefused(
            "DATABASE_URL names a PostgreSQL database, which reset does not delete: "
            "drop it with `dropdb`, or empty it with `coulisse flush`"
        )
    names = [f"{database['NAME']}{suffix}" for suffix in SUFFIXES]
    return [path for path in map(Path, names) if path.exists()]
