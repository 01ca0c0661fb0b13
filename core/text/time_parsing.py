"""Parse times as users type them: `2026-12-31`, `90d`, `12h`."""

import re
from datetime import UTC, date, datetime, time, timedelta

from core.errors import Invalid

DURATION_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
ACCEPTED_FORMS = (
    "a date such as 2026-12-31, a time such as 2026-12-31T18:00, or 12h, 90d"
)


class TimeInvalid(Invalid):
    """This is no date or length of time."""


def parse_future(text: str, now: datetime) -> datetime:
    """Return a future time: a duration from now, or the end of a day.

    UTC unless the text names another zone. Raises `TimeInvalid`.
    """
    return _parse(text, now, 1, of_day=time.max)


def parse_past(text: str, now: datetime) -> datetime:
    """Return a past time: a duration ago, or the start of a day.

    UTC unless the text names another zone. Raises `TimeInvalid`.
    """
    return _parse(text, now, -1, of_day=time.min)


def _parse(text: str, now: datetime, sign: int, *, of_day: time) -> datetime:
    length = _parse_duration(text)
    if length is None:
        return _parse_date(text, of_day)
    try:
        return now + sign * length
    except OverflowError as exc:
        raise _invalid(text) from exc


def _parse_duration(text: str) -> timedelta | None:
    match = re.fullmatch(r"(\d{1,9})([hdw])", text.strip().lower(), re.A)
    if match is None:
        return None
    try:
        return timedelta(**{DURATION_UNITS[match[2]]: int(match[1])})
    except OverflowError as exc:
        raise _invalid(text) from exc


def _parse_date(text: str, of_day: time) -> datetime:
    given = text.strip()
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", given, re.A):
            return datetime.combine(date.fromisoformat(given), of_day, UTC)
        if re.match(r"\d{4}-\d{2}-\d{2}[T ]\d", given, re.A):
            instant = datetime.fromisoformat(given)
            if instant.tzinfo is None:
                return instant.replace(tzinfo=UTC)
            return instant.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise _invalid(text) from exc
    raise _invalid(text)


def _invalid(text: str) -> TimeInvalid:
    return TimeInvalid(f"'{text:.40}' is neither {ACCEPTED_FORMS}")
