"""`coulisse erase-user`: erase all data of a user."""  # noqa: N999

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from access import user_lookup
from access.audit import audit_events
from access.audit.audit_events import AuditEvent
from access.management.user_command import UserCommand
from access.models import ApiToken
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
        self._warn_about_tokens(user_id, options["user"].strip())
        if not any(deleted.values()):
            self.stdout.write(f"no data of user {options['user']}")
            return
        self.stdout.write(f"erased data of user {options['user']} ({user_id}):")
        self._list(deleted)

    def _warn_about_tokens(self, user_id: UserId, user: str) -> None:
        active = ApiToken.objects.active(datetime.now(UTC))
        own = user_lookup.user_tokens(user_id, user).filter(pk__in=active).count()
        if own:
            self._write_tokens(own, "still acts" if own == 1 else "still act", user)
        # The id of a token's separate user does not show the token.
        others = active.filter(user_lookup.HAS_SEPARATE_USERS).count()
        if others and user_lookup.is_id(user):
            self._write_tokens(others, "with separate users may act", user)

    def _write_tokens(self, count: int, verb: str, user: str) -> None:
        self.stderr.write(
            f"{count} active API token{'' if count == 1 else 's'} {verb} for user "
            f"{user}: list with `coulisse token list`, revoke with `coulisse token "
            "revoke`",
            str,
        )

    def _list(self, counts: Mapping[str, int]) -> None:
        for table, rows in counts.items():
            self.stdout.write(f"  {table:<14}{rows:>8}")
