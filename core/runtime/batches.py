"""Process many table rows in batches that leave room for other queries."""

import time
from collections.abc import Callable


def run_batches(run_batch: Callable[[], int], *, size: int, seconds: float) -> int:
    """Repeat a batch of up to `size` rows until one is smaller; return the row count.

    After each batch, it pauses for as long as the batch took. No batch starts after
    `seconds`: the next run continues.
    """
    deadline = time.monotonic() + seconds
    total = 0
    while True:
        started = time.monotonic()
        count = run_batch()
        total += count
        if count < size or time.monotonic() >= deadline:
            return total
        time.sleep(time.monotonic() - started)
