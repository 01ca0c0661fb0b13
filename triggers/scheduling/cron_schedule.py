"""Cron schedules: five fields, or six with the seconds first, in a time zone.

A schedule with a fixed hour and minute runs once on each of its days, even when the
clocks change: times in the skipped hour run right after it, and times in the repeated
hour run the first time. A schedule with a wildcard there follows elapsed time. Source:
Debian's cron.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

EXPECTED_FORMAT = (
    "must be 'minute hour day-of-month month day-of-week' such as '0 9 * * 1-5', "
    "optionally with the second first"
)
FIELDS = 5
WITH_SECONDS = 6
EXAMPLE_DAY = datetime(2024, 1, 1, tzinfo=UTC)


def validate_expression(expression: str) -> str:
    """Return a well-formed cron expression; raises ValueError.

    It may still name days that exist in no year (`is_possible`).
    """
    fields = expression.split()
    if len(fields) not in (FIELDS, WITH_SECONDS):
        raise ValueError(f"{EXPECTED_FORMAT}; this has {len(fields)} fields")
    # Checked without the month, because the library would report the day as wrong.
    fields[-2] = _wildcard_if_valid(fields[-2])
    try:
        CronSim(" ".join(fields), EXAMPLE_DAY)
    except CronSimError as exc:
        raise ValueError(
            f"{EXPECTED_FORMAT}; the {_failed_field(exc)} is not valid"
        ) from None
    return " ".join(expression.split())


def _wildcard_if_valid(month: str) -> str:
    try:
        CronSim(f"0 0 1 {month} *", EXAMPLE_DAY)
    except CronSimError:
        return month
    return "*"


def _failed_field(error: CronSimError) -> str:
    return str(error).removeprefix("Bad ")


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A well-formed cron expression and its time zone."""

    expression: str
    time_zone: str

    def __str__(self) -> str:
        return f"{self.expression} {self.time_zone}"

    @property
    def is_possible(self) -> bool:
        """Whether it ever runs."""
        try:
            return next(self.after(EXAMPLE_DAY), None) is not None
        except CronSimError:
            return False

    def after(self, instant: datetime) -> Iterator[datetime]:
        """Yield the run times after an instant, in UTC."""
        for tick in self._simulate(instant):
            # Times in the repeated hour are identified by their first occurrence.
            if (at := tick.astimezone(UTC)) > instant:
                yield at

    def before(self, instant: datetime) -> Iterator[datetime]:
        """Yield the run times up to and including an instant, latest first."""
        for tick in self._simulate(instant.replace(microsecond=1), is_reverse=True):
            if (at := tick.astimezone(UTC)) <= instant:
                yield at

    def _simulate(self, instant: datetime, *, is_reverse: bool = False) -> CronSim:
        zone: tzinfo = UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)
        simulated = CronSim(self.expression, instant.astimezone(zone), is_reverse)
        if zone is not UTC and self._is_fixed:
            # The library does this by itself only for expressions without seconds.
            simulated.fixup_tz = zone
            simulated.dt = simulated.dt.replace(tzinfo=None)
        return simulated

    @property
    def _is_fixed(self) -> bool:
        minute, hour = self.expression.split()[-FIELDS:][:2]
        return not minute.startswith("*") and not hour.startswith("*")
