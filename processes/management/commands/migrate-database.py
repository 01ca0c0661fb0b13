"""`coulisse migrate-database`: moves all rows to another database."""  # noqa: N999

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError
from django.utils.module_loading import import_string

from access.users import user_namespace
from config.management.base import ConfigCommand
from config.management.progress_bar import ProgressBar
from database.errors import TransferRefused
from database.transfer import copier, databases, rows, target, verification
from database.transfer.databases import SOURCE, TARGET
from database.transfer.progress import TransferProgress
from database.transfer.verification import TableComparison
from processes.errors import AlreadyRunning
from processes.supervision import pidfile, state_directory


class Command(ConfigCommand):
    """Copies, then compares; a run that was killed is continued by the next one."""

    help = (
        "Move all rows to another, empty database: from SQLite to PostgreSQL or back. "
        "Can be interrupted and run again. Exits 1 if rows differ afterwards."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--to",
            required=True,
            metavar="URL",
            help="postgres://USER@HOST:PORT/NAME or sqlite:///PATH. The password may "
            "also be in PGPASSWORD or ~/.pgpass.",
        )
        action = parser.add_mutually_exclusive_group()
        action.add_argument(
            "--dry-run",
            action="store_true",
            help="Only check both databases and count the rows.",
        )
        action.add_argument(
            "--verify", action="store_true", help="Only compare the rows of both."
        )

    def handle(self, **options: Any) -> None:
        parse_url = import_string(settings.COULISSE_DATABASE_URL_PARSER)
        try:
            to = parse_url(options["to"])
        except ValueError as exc:
            raise CommandError(f"--to: {exc}") from exc
        with _server_stopped(), databases.opened(to):
            try:
                self._run(options)
            except DatabaseError as exc:
                raise CommandError(
                    f"a database failed: {exc}. Run the command again to continue"
                ) from exc

    def _run(self, options: dict[str, Any]) -> None:
        databases.check_source()
        target.check(may_have_rows=options["verify"])
        total = sum(rows.rows_of(m, SOURCE).count() for m in rows.list_models())
        title = f"{databases.describe(SOURCE)} to {databases.describe(TARGET)}"
        self.stdout.write(f"{title}: {len(rows.list_models())} tables, {total:,} rows")
        if options["dry_run"]:
            return
        if not options["verify"]:
            user_namespace.record_keys(SOURCE)
            target.prepare()
            seconds = self._show_progress(total, copier.copy_all)
            self.stdout.write(f"copied {total:,} rows in {seconds:.1f} s")
        self._verify(total)
        if not options["verify"]:
            TransferProgress(TARGET).drop()
            self.stdout.write(NEXT_STEPS)

    def _verify(self, total: int) -> None:
        tables: list[TableComparison] = []
        seconds = self._show_progress(
            2 * total, lambda on_rows: tables.extend(verification.compare_all(on_rows))
        )
        different = [table for table in tables if not table.is_equal]
        for table in different:
            self.stdout.write(_describe_difference(table))
        if different:
            names = ", ".join(table.table for table in different)
            raise CommandError(
                f"these tables differ: {names}. If the source was changed meanwhile, "
                "empty the target and move again"
            )
        count = sum(table.target.row_count for table in tables)
        self.stdout.write(
            f"verified {len(tables)} tables, {count:,} rows in {seconds:.1f} s: "
            "all equal"
        )

    def _show_progress(
        self, total: int, work: Callable[[Callable[[int], None]], None]
    ) -> float:
        """Do work that reports rows as it reads them; return the seconds it took."""
        started_at = time.monotonic()
        bar = ProgressBar(self.stderr, total)
        done = 0

        def show(count: int) -> None:
            nonlocal done
            done += count
            bar.show(done)

        work(show)
        bar.end()
        return time.monotonic() - started_at


NEXT_STEPS = (
    "Now set DATABASE_URL to the new database (unset it for SQLite in .coulisse/), "
    "keep .coulisse/secrets.env and users' files, and start the server."
)


@contextmanager
def _server_stopped() -> Iterator[None]:
    """Let no server of this directory run; raises `TransferRefused` if one does."""
    state = state_directory.current_state()
    state.prepare()
    lock = pidfile.PidFile(state.pid)
    try:
        lock.acquire()
    except AlreadyRunning as exc:
        raise TransferRefused(
            f"the server is running (pid {exc.pid}): stop it first"
        ) from exc
    try:
        yield
    finally:
        lock.release()


def _describe_difference(table: TableComparison) -> str:
    counts = (
        f"{table.source.row_count:,} rows, {table.target.row_count:,} on the target"
    )
    keys = ", ".join(table.different_keys)
    return f"{table.table}: {counts}; different: {keys}"
