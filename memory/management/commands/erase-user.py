"""`manage.py erase-user`: erase all data of a user."""  # noqa: N999

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from access import user_lookup
from access.audit import audit_events
from access.audit.audit_events import AuditEvent
from access.management.user_command import UserCommand
from config.management.database_command import ask_confirmation
from core.ids import UserId
from memory.user_data import erasure


class Command(UserCommand):
    """Count the rows, ask for confirmation, erase them and print the counts."""

    help = "Permanently erase all data of a user."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "-y", "--yes", action="store_true", help="Do not ask for confirmation."
        )

    def handle(self, **options: Any) -> None:
        user_id = self.user_id(options)
        counts = erasure.count_rows(user_id)
        if any(counts.values()) and not options["yes"]:
            self.stdout.write(
                f"This permanently erases all data of user {options['user']}:"
            )
            self._list(counts)
            if not ask_confirmation("erase"):
                self.stdout.write("nothing was erased")
                return
        # Erases a pending erasure request even if nothing else is stored.
        event = AuditEvent("user.erase", audit_events.terminal_actor(), str(user_id))
        deleted = erasure.erase_user(user_id, event=event)
        self._warn_about_tokens(user_id, options["user"])
        if not any(deleted.values()):
            self.stdout.write(f"no data of user {options['user']}")
            return
        self.stdout.write(f"erased data of user {options['user']} ({user_id}):")
        self._list(deleted)

    def _warn_about_tokens(self, user_id: UserId, user: str) -> None:
        active = user_lookup.user_tokens(user_id).active(datetime.now(UTC)).count()
        if active:
            tokens = (
                "1 active API token still acts"
                if active == 1
                else f"{active} active API tokens still act"
            )
            self.stderr.write(
                f"{tokens} for user {user}: list with `manage.py token list`, revoke "
                "with `manage.py token revoke`",
                str,
            )

    def _list(self, counts: Mapping[str, int]) -> None:
        for table, rows in counts.items():
            self.stdout.write(f"  {table:<14}{rows:>8}")
