"""How the CPU time of a function grows with the length of its text."""

import gc
import itertools
import time
from collections.abc import Callable
from functools import partial

SIZES = (2**10, 2**13, 2**16)
"""Characters, eight times as many each."""
MAX_GROWTH = 26
"""The CPU ratio allowed for eight times the text: linear is 8, quadratic is 64."""
NEGLIGIBLE_SECONDS = 0.000_1
"""Shorter times are not compared: a quadratic function that takes this long for the
second text takes two seconds for a megabyte."""
STABLE_SECONDS = 0.1
"""Longer times are measured only once."""
TRIES = 8


def build_text(prefix: str, repeated: str, suffix: str, size: int) -> str:
    """Return a text of a given size that repeats a piece."""
    times = size // len(repeated) + 1
    return prefix + (repeated * times)[:size] + suffix


def is_linear(function: Callable[[str], object], *parts: str) -> bool:
    """Return whether the time of a function is proportional to the text."""
    runs = [partial(function, build_text(*parts, size)) for size in SIZES]
    return all(grows_slowly(short, long) for short, long in itertools.pairwise(runs))


def grows_slowly(short: Callable[[], object], long: Callable[[], object]) -> bool:
    """Return whether eight times the input takes far less than 64 times as long."""
    gc.disable()  # Its cost depends on all tests, not on the input.
    try:
        before = _seconds(short)
        if before < NEGLIGIBLE_SECONDS:
            return True
        after = _seconds(long)
        for _ in range(TRIES):
            if after <= MAX_GROWTH * before:
                return True
            # Another process may have evicted the caches.
            after = min(after, _measure_once(long))
        return False
    finally:
        gc.enable()


def _seconds(work: Callable[[], object]) -> float:
    """Return the minimum CPU time of this thread over a few runs."""
    minimum = _measure_once(work)
    for _ in range(2):
        if minimum < STABLE_SECONDS:
            minimum = min(minimum, _measure_once(work))
    return minimum


def _measure_once(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started
