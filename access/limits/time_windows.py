"""The time windows of usage counters.

Windows are fixed, aligned to the Unix epoch, so all processes agree on them without
communication. Source: "Rate limiting" of the reference; a month there is 30 days.
Budgets and spending limits use the calendar month, in UTC.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

MINUTE, HOUR, DAY, MONTH = 60, 3_600, 86_400, 2_592_000
EVER = 0
"""All time."""
CALENDAR_MONTH = 1


class TimeWindow(NamedTuple):
    length: int
    """In seconds; or `EVER`, or `CALENDAR_MONTH`."""
    start: int
    """Seconds since 1970."""

    @property
    def end(self) -> int:
        """The time when it ends, in seconds since 1970; not defined for `EVER`."""
        if self.length == CALENDAR_MONTH:
            first = datetime.fromtimestamp(self.start, UTC)
            # Day 32 of any month is in the next one.
            return month_start(self.start + (32 - first.day) * DAY)
        return self.start + self.length


def window_at(length: int, now: int) -> TimeWindow:
    """Return the window that contains a time, in seconds since 1970."""
    if length == EVER:
        return TimeWindow(EVER, 0)
    if length == CALENDAR_MONTH:
        return TimeWindow(CALENDAR_MONTH, month_start(now))
    return TimeWindow(length, now - now % length)


def month_start(now: int) -> int:
    """Return the start of the calendar month in UTC, in seconds since 1970."""
    return _month_start_of(now // DAY)


@lru_cache(maxsize=64)
def _month_start_of(day: int) -> int:
    at = datetime.fromtimestamp(day * DAY, UTC)
    return int(datetime(at.year, at.month, 1, tzinfo=UTC).timestamp())
