"""The time that the processes of all machines share: the database's.

`database.database_clock` compares it with this process's monotonic clock, regularly.
Reading the time takes no query then; and neither a wrong clock of the machine nor
setting that clock has an effect. Without comparisons, as with SQLite, it is the time of
the machine.
"""

import time
from datetime import UTC, datetime
from typing import NamedTuple

MAX_DRIFT = 0.001
"""How much faster or slower than the other a monotonic clock may be."""


class Comparison(NamedTuple):
    """How far the shared clock is ahead of this process's monotonic one."""

    seconds: float
    error: float
    """Half of the time that the answer took."""
    made_at: float


_latest: Comparison | None = None


def now() -> datetime:
    """Return the current time, timezone-aware, in UTC."""
    if _latest is None:
        return datetime.now(UTC)
    return datetime.fromtimestamp(time.monotonic() + _latest.seconds, UTC)


def skew_seconds() -> float:
    """Return how far the shared clock is ahead of this machine's."""
    return now().timestamp() - time.time()


def compare(shared: float, before: float, after: float) -> None:
    """Note that the shared clock showed these epoch seconds between two instants.

    A slow answer says less than a fast one, until that is old, or they disagree because
    the shared clock was set.
    """
    global _latest
    found = Comparison(shared - (before + after) / 2, (after - before) / 2, after)
    if _latest is not None:
        error = _latest.error + (after - _latest.made_at) * MAX_DRIFT
        distance = abs(found.seconds - _latest.seconds)
        if error < found.error and distance <= error + found.error:
            return
    _latest = found
