"""`manage.py audit`: who changed what, when and from where."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from access.audit import audit_log, formatting
from config.management.database_command import DatabaseCommand
from core.text import time_parsing

DEFAULT_LIMIT = 50


class Command(DatabaseCommand):
    """List entries, one per line."""

    help = "List what operators and users changed, the newest first."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--since", metavar="WHEN", help="2026-12-31 (UTC), 90d, 12h."
        )
        parser.add_argument(
            "--action", help="Such as token.create; token is all of that family."
        )
        parser.add_argument("--actor", help="A part of who did it.")
        parser.add_argument("--target", help="A part of what it was done to.")
        parser.add_argument(
            "--limit",
            type=int,
            default=DEFAULT_LIMIT,
            help=f"How many; {DEFAULT_LIMIT} by default.",
        )
        parser.add_argument("--json", action="store_true", help="Print JSON.")

    def handle(self, **options: Any) -> None:
        if options["limit"] < 1:
            raise CommandError("--limit must be at least 1")
        since = options["since"]
        page, has_more = audit_log.page_entries(
            action=options["action"],
            actor=options["actor"],
            target=options["target"],
            since=None
            if since is None
            else time_parsing.parse_past(since, datetime.now(UTC)),
            limit=options["limit"],
        )
        if options["json"]:
            self.write_json([formatting.as_json(entry) for entry in page])
            return
        for entry in page:
            self.stdout.write(formatting.entry_line(entry))
        if not page:
            self.say("no such change is recorded")
        elif has_more:
            self.say("there are more: --limit says how many are listed")
