"""Process many table rows in batches that leave room for other queries."""

import time
from collections.abc import Callable


def run_batches(piece: Callable[[], int], *, size: int, seconds: float) -> int:
    """Repeat a batch of up to `size` rows until one is smaller; return the row count.

    After each batch, it pauses for as long as the batch took. No batch starts after
    `seconds`: the next run continues.
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
