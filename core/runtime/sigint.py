"""^C, heard where a program looks for it and nowhere else."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def defer_sigint() -> Iterator[Callable[[], None]]:
    """Hold ^C back in this block; yield what raises KeyboardInterrupt after one.

    Python raises it between any two instructions: also between a BEGIN and whoever
    would end that transaction, and then what is written to clean up is never committed.
    Runners such as make pass a second ^C on, which is not to break the cleaning up.
    For the main thread alone; other threads are never interrupted.
    """
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True

    def heed() -> None:
        if pressed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, press)
    try:
        yield heed
    finally:
        signal.signal(signal.SIGINT, before)
