"""Format times for JSON."""

from datetime import UTC, datetime


def format_time(at: datetime | None) -> str | None:
    """Return a time as ISO 8601 in UTC, or None."""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
