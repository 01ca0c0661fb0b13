"""Much work on tables, done in pieces between which others have their turn."""

import time
from collections.abc import Callable


def run_batches(piece: Callable[[], int], *, size: int, seconds: float) -> int:
    """Repeat a piece of up to `size` rows until one is smaller; return how many in all.

    After each, the database is left to others for as long as it took. None begins after
    so many seconds: the next run goes on.
    """
    end = time.monotonic() + seconds
    done = 0
    while True:
        begun = time.monotonic()
        count = piece()
        done += count
        if count < size or time.monotonic() >= end:
            return done
        time.sleep(time.monotonic() - begun)
