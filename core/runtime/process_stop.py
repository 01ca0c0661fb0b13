"""Whether this process has been asked to stop, and how long its work may go on."""

import math

_has_begun = False
_max_seconds = math.inf


def begin() -> None:
    """Note that this process stops: it is no longer ready."""
    global _has_begun
    _has_begun = True


def has_begun() -> bool:
    return _has_begun


def hurry(seconds: float) -> None:
    """Limit the time for open work, whatever the configuration allows."""
    global _max_seconds
    _max_seconds = seconds


def limit(seconds: float) -> float:
    """Return the time for open work, of which the configuration allows `seconds`."""
    return min(seconds, _max_seconds)
