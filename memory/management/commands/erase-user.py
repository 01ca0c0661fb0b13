"""`manage.py erase-user`: a user is forgotten altogether."""  # noqa: N999

import sys
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser

from memory import erasure
from memory.command import UserCommand


class Command(UserCommand):
    """Count, ask, erase, account."""

    help = "Erase everything there is of a user, for good."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "-y", "--yes", action="store_true", help="Erase without asking."
        )

    def handle(self, **options: Any) -> None:
        user_id = self.user_id(options)
        counts = erasure.count(user_id)
        if any(counts.values()) and not options["yes"]:
            self.stdout.write(f"This erases all of user {options['user']}, for good:")
            self._list(counts)
            if not is_confirmed():
                self.stdout.write("nothing was erased")
                return
        # A wish that waits to be confirmed goes even where there is nothing else.
        deleted = erasure.erase(user_id)
        if not any(deleted.values()):
            self.stdout.write(f"there is nothing of user {options['user']}")
            return
        self.stdout.write(f"erased of user {options['user']} ({user_id}):")
        self._list(deleted)

    def _list(self, counts: Mapping[str, int]) -> None:
        for table, rows in counts.items():
            self.stdout.write(f"  {table:<14}{rows:>8}")


def is_confirmed() -> bool:
    """Ask whoever is at the terminal."""
    if not sys.stdin.isatty():
        raise CommandError("there is no terminal to ask at: pass -y to erase")
    return input("Type 'yes' to go on: ").strip().lower() in ("y", "yes")
