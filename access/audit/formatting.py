"""Audit entries as text for the terminal."""

from typing import Any

import orjson

from access.models import AuditEntry


def entry_line(entry: AuditEntry) -> str:
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
