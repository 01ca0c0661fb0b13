"""Defer ^C (SIGINT) to points where a program checks for it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def defer_sigint() -> Iterator[Callable[[], None]]:
    """Defer ^C in this block; yield a function that raises KeyboardInterrupt after one.

    Python raises KeyboardInterrupt between any two instructions, also between a BEGIN
    and the code that ends the transaction, which would prevent the commit of cleanup
    writes. Runners such as make forward a second ^C, which must not interrupt the
    cleanup. Only for the main thread; other threads are never interrupted.
    """
    is_interrupted = False

    def on_sigint(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True

    def raise_if_interrupted() -> None:
        if is_interrupted:
            raise KeyboardInterrupt

    previous_handler = signal.signal(signal.SIGINT, on_sigint)
    try:
        yield raise_if_interrupted
    finally:
        signal.signal(signal.SIGINT, previous_handler)
