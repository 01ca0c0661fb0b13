"""The difference between the clock of this machine and another one."""

import time
from collections.abc import Callable

MAX_SECONDS = 5.0
"""Larger differences show in leases, limits and crons."""
REMEDY = "synchronize the clocks of both machines (NTP)"


def measure(read_other: Callable[[], float]) -> float:
    """Return how far the other clock is ahead, in seconds; it returns epoch seconds."""
    before = time.time()
    other = read_other()
    return other - (before + time.time()) / 2


def describe(skew: float, place: str) -> str | None:
    """Return the problem of a difference; None for a tolerable one."""
    if abs(skew) <= MAX_SECONDS:
        return None
    side = "ahead of" if skew > 0 else "behind"
    return f"the clock of the {place} is {abs(skew):.0f} s {side} this machine's"
