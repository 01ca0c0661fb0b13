"""Exponential backoff: pauses that grow with each failure in a row."""

import random
from dataclasses import dataclass


def exponential_seconds(
    failures: int, *, minimum: float, maximum: float, factor: float = 2.0
) -> float:
    """Return the pause after so many failures: `minimum` after the first one."""
    # A float overflows after about a thousand doublings.
    return min(maximum, minimum * factor ** min(max(failures - 1, 0), 100))


def jittered_seconds(
    failures: int,
    *,
    minimum: float,
    maximum: float,
    factor: float = 2.0,
    at_least: float | None = None,
) -> float:
    """Return a random pause between half of the exponential one and all of it.

    Jobs that failed together are not retried together. `at_least` is what a provider
    asked for (`Retry-After`).
    """
    longest = exponential_seconds(
        failures, minimum=minimum, maximum=maximum, factor=factor
    )
    jitter = random.uniform(longest / 2, longest)  # noqa: S311  not for security
    return max(jitter, at_least or 0.0)


@dataclass(slots=True)
class Backoff:
    """The pauses of one loop."""

    minimum: float
    maximum: float
    failures: int = 0
    """How many there were in a row."""

    def next_seconds(self) -> float:
        """Count a failure; return the pause that follows it."""
        self.failures += 1
        return exponential_seconds(
            self.failures, minimum=self.minimum, maximum=self.maximum
        )

    def reset(self) -> None:
        """Forget the failures, after a success."""
        self.failures = 0
