"""Parsing of dates that models write, in the user's time zone."""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

DATE_PATTERN = re.compile(r"\d{4}-\d{2}-\d{2}")
FIRST_YEAR, LAST_YEAR = 1800, 2200
"""The range of years that a fact can refer to."""


def get_zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name; UTC for "" and for unknown names."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return UTC


def parse_instant(
    value: object, zone: tzinfo, *, at_end: bool = False
) -> datetime | None:
    """Return the UTC instant of an ISO 8601 date or time, or None if it is neither.

    A value without an offset is in `zone`. A date means the start of the day, or with
    `at_end` its end, which is the start of the next day.
    """
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        if DATE_PATTERN.fullmatch(text):
            day = date.fromisoformat(text) + timedelta(days=int(at_end))
            parsed = datetime.combine(day, time())
        else:
            parsed = datetime.fromisoformat(text)
        if not FIRST_YEAR <= parsed.year <= LAST_YEAR:
            return None
        return (
            parsed if parsed.utcoffset() is not None else parsed.replace(tzinfo=zone)
        ).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
