"""`manage.py turns`: recent turns."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from access.users import identity
from config.management.database_command import DatabaseCommand
from telemetry.presentation import terminal
from telemetry.storage import turn_store

DEFAULT_LIMIT = 20


class Command(DatabaseCommand):
    """Prints one line per turn."""

    help = "List recorded turns, newest first."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--user", help="Only turns of this user.")
        parser.add_argument("--agent", help="Only turns of this agent.")
        parser.add_argument("--experiment", help="Only turns of this experiment.")
        parser.add_argument(
            "--failed", action="store_true", help="Only turns that ended in an error."
        )
        parser.add_argument(
            "--request", metavar="ID", help="Only turns with this X-Request-Id."
        )
        parser.add_argument(
            "--limit",
            type=int,
            default=DEFAULT_LIMIT,
            help=f"Maximum number of turns (default: {DEFAULT_LIMIT}).",
        )

    def handle(self, **options: Any) -> None:
        if options["limit"] < 1:
            raise CommandError("--limit must be at least 1")
        user = options["user"]
        page, has_more = turn_store.page_turns(
            user_id=None
            if user is None
            else identity.derive_user_id(identity.check_identifier(user)),
            agent=options["agent"],
            experiment=options["experiment"],
            outcome="error" if options["failed"] else None,
            request_id=options["request"],
            limit=options["limit"],
        )
        for turn in page:
            self.stdout.write(terminal.turn_line(turn))
        if not page:
            self.write_note("no matching turns")
        elif has_more:
            self.write_note("there are more turns; raise --limit to list them")
