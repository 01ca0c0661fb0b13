"""`coulisse consolidate`: summarize old conversations now."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from access.users import identity
from config.management.database_command import DatabaseCommand
from memory.models import ConsolidationRun
from memory.transcript.summaries import consolidation

COUNT_FIELDS = ("threads", "messages", "summaries", "failures", "tokens_before")


class Command(DatabaseCommand):
    """Run a consolidation and print its results."""

    help = "Summarize old conversations now, and print the counts."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="Show what would be summarized; call no model, change nothing.",
        )
        parser.add_argument("--user", help="Only this user's conversations.")

    def handle(self, **options: Any) -> None:
        user = options["user"]
        run = consolidation.consolidate(
            datetime.now(UTC),
            dry_run=options["dry_run"],
            force=True,
            user_id=None
            if user is None
            else identity.derive_user_id(identity.check_identifier(user)),
        )
        if run is None:
            self.stdout.write("memory is off: nothing to summarize")
        else:
            self._print(run)

    def _print(self, run: ConsolidationRun) -> None:
        self.stdout.write("would process:" if run.is_dry_run else "processed:")
        names = COUNT_FIELDS if run.is_dry_run else (*COUNT_FIELDS, "tokens_after")
        for name in names:
            self.stdout.write(f"  {name.replace('_', ' '):<14}{getattr(run, name):>9,}")
        if run.error:
            self.stdout.write(f"  {run.error}")
