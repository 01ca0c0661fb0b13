"""`coulisse turns`: recent turns."""

from typing import Any

from django.core.management.base import CommandParser

from access.users import identity
from config.management import config_option
from config.management.database_command import DatabaseCommand
from telemetry.models import Turn
from telemetry.presentation import terminal

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
        config_option.add_limit(parser, "turns", default=DEFAULT_LIMIT)

    def handle(self, **options: Any) -> None:
        page, has_more = _find_turns(options).read_page(options["limit"])
        for turn in page:
            self.stdout.write(terminal.turn_line(turn))
        if not page:
            self.write_note("no matching turns")
        elif has_more:
            self.write_note("there are more turns; raise --limit to list them")


def _find_turns(options: dict[str, Any]) -> Any:
    """Return the turns that the options select, newest first."""
    turns = Turn.objects.newest_first()
    if (user := options["user"]) is not None:
        user_id = identity.derive_user_id(identity.check_identifier(user))
        turns = turns.filter(user_id=user_id)
    fields = {"agent": "agent", "experiment": "experiment", "request": "request_id"}
    for option, field in fields.items():
        if options[option] is not None:
            turns = turns.filter(**{field: options[option]})
    return turns.failed() if options["failed"] else turns
