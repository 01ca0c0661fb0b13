"""Parse times as users type them: `2026-12-31`, `90d`, `12h`."""

import re
from datetime import UTC, date, datetime, time, timedelta

from core.errors import Invalid

DURATION_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
ACCEPTED_FORMS = (
    "a date such as 2026-12-31, a time such as 2026-12-31T18:00, or a duration such as "
    "12h or 90d"
)


class TimeInvalid(Invalid):
    """The text is not a date or a duration."""


def parse_future(text: str, now: datetime) -> datetime:
    """Return a future time: a duration from now, or the end of a day.

    UTC unless the text names another zone. Raises `TimeInvalid`.
    """
    return _parse(text, now, 1, time_of_day=time.max)


def parse_past(text: str, now: datetime) -> datetime:
    """Return a past time: a duration ago, or the start of a day.

    UTC unless the text names another zone. Raises `TimeInvalid`.
    """
    return _parse(text, now, -1, time_of_day=time.min)


def _parse(text: str, now: datetime, sign: int, *, time_of_day: time) -> datetime:
    stripped = text.strip()
    try:
        if match := re.fullmatch(r"(\d{1,9})([hdw])", stripped.lower(), re.A):
            return now + sign * timedelta(**{DURATION_UNITS[match[2]]: int(match[1])})
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", stripped, re.A):
            return datetime.combine(date.fromisoformat(stripped), time_of_day, UTC)
        if re.match(r"\d{4}-\d{2}-\d{2}[T ]\d", stripped, re.A):
            at = datetime.fromisoformat(stripped)
            return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        pass
    raise TimeInvalid(f"'{text:.40}' is not a time: give {ACCEPTED_FORMS}")
