"""When a cron fires: five fields, or six with the seconds first, in a time zone.

A schedule with a fixed hour and minute fires once on each day it names, also when the
clocks are changed: what falls into the hour that is left out fires right after it, and
what falls into the hour that comes twice fires the first time. One with a wildcard
there goes by the time that passes. Source: Debian's cron.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

EXPECTED_FORMAT = (
    "must be 'minute hour day-of-month month day-of-week' such as '0 9 * * 1-5', or "
    "these after a second"
)
FIELDS = 5
WITH_SECONDS = 6
EXAMPLE_DAY = datetime(2024, 1, 1, tzinfo=UTC)


def validate_expression(expression: str) -> str:
    """Return a cron expression that is well formed; raises ValueError.

    It may still name days that no year has (`is_possible`).
    """
    fields = expression.split()
    if len(fields) not in (FIELDS, WITH_SECONDS):
        raise ValueError(f"{EXPECTED_FORMAT}; this has {len(fields)} fields")
    # In any month, for of a month without such a day it says the day were wrong.
    fields[-2] = _wildcard_if_valid(fields[-2])
    try:
        CronSim(" ".join(fields), EXAMPLE_DAY)
    except CronSimError as exc:
        raise ValueError(
            f"{EXPECTED_FORMAT}; of this the {_failed_field(exc)} is not right"
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
    """A cron expression that is well formed, and the zone its times are of."""

    expression: str
    time_zone: str

    def __str__(self) -> str:
        return f"{self.expression} {self.time_zone}"

    @property
    def is_possible(self) -> bool:
        """Whether it ever fires."""
        try:
            return next(self.after(EXAMPLE_DAY), None) is not None
        except CronSimError:
            return False

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times it fires after a moment, in UTC, for as long as it does."""
        for tick in self._simulate(moment):
            # What falls into the hour that comes twice is told by its first time.
            if (at := tick.astimezone(UTC)) > moment:
                yield at

    def before(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times it fired, the latest first; the moment itself is one."""
        for tick in self._simulate(moment.replace(microsecond=1), is_reverse=True):
            if (at := tick.astimezone(UTC)) <= moment:
                yield at

    def _simulate(self, moment: datetime, *, is_reverse: bool = False) -> CronSim:
        zone: tzinfo = UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)
        simulated = CronSim(self.expression, moment.astimezone(zone), is_reverse)
        if zone is not UTC and self._is_fixed:
            # Of itself it does so for the form without seconds alone.
            simulated.fixup_tz = zone
            simulated.dt = simulated.dt.replace(tzinfo=None)
        return simulated

    @property
    def _is_fixed(self) -> bool:
        minute, hour = self.expression.split()[-FIELDS:][:2]
        return not minute.startswith("*") and not hour.startswith("*")
