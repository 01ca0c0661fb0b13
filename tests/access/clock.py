"""A clock for tests of delays."""


class Clock:
    """A clock that a test sets, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
