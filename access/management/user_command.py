"""The base class of commands about one user."""

from typing import Any

from django.core.management.base import CommandParser

from access.users import identity
from config.management.database_command import DatabaseCommand
from core.ids import UserId


class UserCommand(DatabaseCommand):
    """A command about a user's data."""

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "user",
            metavar="USER",
            help="The user's safety_identifier or UUID.",
        )

    def user_id(self, options: dict[str, Any]) -> UserId:
        """Return the user's id; raises `UserInvalid` for a blank name."""
        return identity.derive_user_id(identity.check_identifier(options["user"]))
