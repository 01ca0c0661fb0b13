"""`coulisse audit`: who changed what, when and from where."""

from datetime import UTC, datetime
from typing import Any

import orjson
from django.core.management.base import CommandParser

from access.models import AuditEntry, AuditEntryQuerySet
from access.schemas import AuditLogEntry
from config.management import config_option
from config.management.database_command import DatabaseCommand
from core.text import time_parsing

DEFAULT_LIMIT = 50


class Command(DatabaseCommand):
    """List entries, one per line."""

    help = "List changes by operators and users, newest first."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--since",
            metavar="WHEN",
            help="Only changes since a date (2026-12-31) or a time ago (90d, 12h).",
        )
        parser.add_argument(
            "--action",
            help="Only this action, such as token.create; token matches all of its "
            "actions.",
        )
        parser.add_argument(
            "--actor", help="Only changes whose actor contains this text."
        )
        parser.add_argument(
            "--target", help="Only changes whose target contains this text."
        )
        config_option.add_limit(parser, "entries", default=DEFAULT_LIMIT)
        parser.add_argument("--json", action="store_true", help="Print JSON.")

    def handle(self, **options: Any) -> None:
        limit = options["limit"]
        entries = list(_find_entries(options)[: limit + 1])
        page = entries[:limit]
        if options["json"]:
            shapes = [AuditLogEntry.model_validate(entry) for entry in page]
            self.write_json([shape.model_dump() for shape in shapes])
            return
        for entry in page:
            self.stdout.write(_entry_line(entry))
        if not page:
            self.write_note("no matching entries")
        elif len(entries) > limit:
            self.write_note("there are more entries; raise --limit to list them")


def _find_entries(options: dict[str, Any]) -> AuditEntryQuerySet:
    """Return the matching entries, newest first."""
    entries = AuditEntry.objects.newest_first()
    if options["action"]:
        entries = entries.of_action(options["action"])
    if options["actor"]:
        entries = entries.filter(actor__icontains=options["actor"])
    if options["target"]:
        entries = entries.filter(target__icontains=options["target"])
    if options["since"]:
        since = time_parsing.parse_past(options["since"], datetime.now(UTC))
        entries = entries.filter(at__gte=since)
    return entries


def _entry_line(entry: AuditEntry) -> str:
    """Return an entry as one line: time, action, target, actor and source."""
    columns = [
        f"{entry.at:%Y-%m-%d %H:%M:%S}",
        f"{entry.action:<16}",
        entry.target,
        f"by {entry.actor}",
        f"from {entry.origin}" if entry.origin else "",
        *(
            f"{name}={_format_value(value)}"
            for name, value in sorted(entry.details.items())
        ),
        f"request={entry.request_id}" if entry.request_id else "",
    ]
    return "  ".join(filter(None, columns))


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
