"""How the CPU time of a function grows with the length of its text."""

import gc
import itertools
import time
from collections.abc import Callable
from functools import partial

SIZES = (2**10, 2**13, 2**16)
"""Characters, eight times as many each."""
MOST_GROWTH = 26
"""Times as much CPU for eight times the text: linear is 8, quadratic is 64."""
SECONDS_FELT = 0.000_1
"""Less is not compared: a quadratic function that takes that for the second text takes
two seconds for a megabyte."""
SECONDS_LONG = 0.1
"""What takes so long need not be measured several times."""
TRIES = 8


def of(prefix: str, repeated: str, suffix: str, size: int) -> str:
    """Return a text of a size, by what is repeated in it."""
    times = size // len(repeated) + 1
    return prefix + (repeated * times)[:size] + suffix


def is_linear(function: Callable[[str], object], *parts: str) -> bool:
    """Whether a function takes time in proportion to its text."""
    runs = [partial(function, of(*parts, size)) for size in SIZES]
    return all(grows_slowly(short, long) for short, long in itertools.pairwise(runs))


def grows_slowly(short: Callable[[], object], long: Callable[[], object]) -> bool:
    """Whether work on eight times the input takes far less than 64 times as long."""
    gc.disable()  # It looks at the objects of all tests, whatever the input.
    try:
        before = _seconds(short)
        if before < SECONDS_FELT:
            return True
        after = _seconds(long)
        for _ in range(TRIES):
            if after <= MOST_GROWTH * before:
                return True
            # Another process may have taken the caches meanwhile.
            after = min(after, _once(long))
        return False
    finally:
        gc.enable()


def _seconds(work: Callable[[], object]) -> float:
    """Return the least CPU time of this thread in a few runs."""
    least = _once(work)
    for _ in range(2):
        if least < SECONDS_LONG:
            least = min(least, _once(work))
    return least


def _once(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started
