"""`coulisse turn`: one turn, and the tree of its calls."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from config.management.database_command import DatabaseCommand
from core import ids
from telemetry.presentation import terminal
from telemetry.schemas import StudioTurn
from telemetry.storage import turn_store


class Command(DatabaseCommand):
    """Prints a turn as a tree or as JSON."""

    help = "Show a recorded turn with all its calls."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "id",
            metavar="ID",
            help="The UUID of the turn, or the id of its reply (chatcmpl-…).",
        )
        parser.add_argument(
            "--json", action="store_true", help="Print the whole turn as JSON."
        )

    def handle(self, **options: Any) -> None:
        turn_id = ids.parse_turn_id(options["id"])
        if turn_id is None:
            raise CommandError(
                f"'{options['id']}' is not the id of a turn: use a UUID, or the id of "
                "a reply (chatcmpl-…)"
            )
        record = turn_store.load_record(turn_id)
        if record is None:
            raise CommandError(f"turn {turn_id} is not recorded, or was deleted")
        if options["json"]:
            self.write_json(StudioTurn.serialize(record))
            return
        for line in terminal.turn_tree(record):
            self.stdout.write(line)
