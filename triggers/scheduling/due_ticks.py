"""Which ticks of a schedule run, after a pause of any length, and when the next is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count, islice, takewhile
from typing import Literal, Protocol

from celery.schedules import BaseSchedule, schedstate

GRACE = timedelta(seconds=60)
"""Younger ticks run late: a beat that died is back by then."""
MAX_COUNTED = 10_000
"""Maximum missed ticks that are counted."""
MAX_CAUGHT_UP = 100
NEVER = timedelta(days=365)


class Times(Protocol):
    """The times of a schedule."""

    def after(self, instant: datetime) -> Iterator[datetime]:
        """Yield the times after an instant, in UTC."""

    def before(self, instant: datetime) -> Iterator[datetime]:
        """Yield the times up to and including an instant, latest first."""


@dataclass(frozen=True, slots=True)
class IntervalTimes:
    """Times at a fixed distance; restarts and delays do not shift them."""

    every: timedelta
    anchor: datetime

    def __str__(self) -> str:
        return f"every {self.every}"

    def after(self, instant: datetime) -> Iterator[datetime]:
        passed = (instant - self.anchor) // self.every
        return (self.anchor + number * self.every for number in count(passed + 1))

    def before(self, instant: datetime) -> Iterator[datetime]:
        """Yield the times up to and including an instant, latest first."""
        passed = (instant - self.anchor) // self.every
        return (self.anchor + number * self.every for number in count(passed, -1))


class TickSchedule(BaseSchedule):
    """Celery's view of a schedule.

    It has seconds, time zones and clock changes, unlike Celery's crontab.
    """

    def __init__(self, times: Times) -> None:
        super().__init__()
        self.times = times

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TickSchedule) and self.times == other.times

    def __hash__(self) -> int:
        return hash(self.times)

    def is_due(self, last_run_at: datetime) -> schedstate:
        """Return whether a tick passed since then, and the seconds to the next one."""
        is_due = self.remaining_estimate(last_run_at) <= timedelta(0)
        return schedstate(is_due, self.remaining_estimate(self.now()).total_seconds())

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """Return the time to the first tick after an instant."""
        tick = next(self.times.after(last_run_at), None)
        return NEVER if tick is None else tick - self.now()


@dataclass(frozen=True, slots=True)
class DueTicks:
    """The ticks since a schedule was last checked."""

    ticks: Sequence[datetime]
    """Those that run."""
    until: datetime
    """The end of that period."""
    missed: int = 0
    """Ticks that are skipped because they are too old."""
    missed_at: datetime | None = None
    """The latest of them."""


def select_ticks(
    times: Times, catch_up: bool | Literal["last"], since: datetime, now: datetime
) -> DueTicks | None:
    """Return the due ticks since an instant, or None if there are none."""
    edge = max(since, now - GRACE)
    fresh = list(takewhile(lambda tick: tick <= now, times.after(edge)))
    late = _newest_ticks(times, since, edge)
    if not late:
        return DueTicks(fresh, fresh[-1]) if fresh else None
    caught_up = _select_catch_up(catch_up, late, is_superseded=bool(fresh))
    missed = late[: len(late) - len(caught_up)]
    return DueTicks(
        ticks=[*caught_up, *fresh],
        until=fresh[-1] if fresh else edge,
        missed=_count_ticks(times, since, edge) - len(caught_up),
        missed_at=missed[-1] if missed else None,
    )


def _newest_ticks(times: Times, since: datetime, until: datetime) -> list[datetime]:
    """Return the last ticks of a period in order: one more than are caught up."""
    if since >= until:
        return []
    backwards = takewhile(lambda tick: tick > since, times.before(until))
    return list(islice(backwards, MAX_CAUGHT_UP + 1))[::-1]


def _select_catch_up(
    catch_up: bool | Literal["last"], late: Sequence[datetime], *, is_superseded: bool
) -> Sequence[datetime]:
    if catch_up == "last":
        return () if is_superseded else late[-1:]
    return late[-MAX_CAUGHT_UP:] if catch_up else ()


def _count_ticks(times: Times, since: datetime, until: datetime) -> int:
    ticks = takewhile(lambda tick: tick <= until, times.after(since))
    return sum(1 for _ in islice(ticks, MAX_COUNTED))
