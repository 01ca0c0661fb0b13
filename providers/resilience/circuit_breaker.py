"""Whether an endpoint is worth asking: a circuit for each, in this process's memory.

    closed ── failures in a row ──> open ── its time is over ──> one call tries
       ^                              ^                            │      │
       └──────────────────────────────┼───────── it is answered ───┘      │
                                      └──── it fails: twice the time ─────┘

A lone endpoint opens only for what no other request would fare better with: it is
down, or its replies are broken. A refused key or spent credit is an answer that comes
at once and says more than we could. With others beside it, such a key opens it at once,
and for longer. A rate limit opens nothing: it tells when to come again, which is what
retries wait for; until then the endpoint is the last that is chosen.

Processes, threads and event loops share nothing here but plain attributes: a circuit
that two of them change at a time is off by one failure at worst.
"""

import logging
import time
from dataclasses import dataclass, field
from typing import Literal

from core.errors import CoulisseError
from providers.config import BreakerConfig
from providers.errors import (
    KeyRefused,
    ModelUnknown,
    OutOfCredit,
    ProviderFailed,
    RateLimited,
    RequestRefused,
)

logger = logging.getLogger(__name__)

MAX_OPEN_SECONDS = 60.0
DEAD_OPEN_SECONDS = 60.0
"""How long a key that is refused is left alone first."""
MAX_DEAD_OPEN_SECONDS = 600.0
MAX_RETRY_AFTER_SECONDS = 300.0
"""No Retry-After keeps us away for longer."""
RATE_LIMIT_PAUSE_SECONDS = 1.0
"""How long an endpoint that limits us is chosen last when it does not say."""

FailureClass = Literal["answered", "failing", "dead", "nothing"]

now = time.monotonic
"""The clock; tests put one of their own here."""


@dataclass(slots=True, eq=False)
class Circuit:
    """What is known of one endpoint."""

    label: str
    """What the log calls it."""
    failures: int = 0
    """In a row, since the last reply."""
    open_until: float | None = None
    """When one call may try; None while all may."""
    paused_until: float = 0.0
    """Until when it has asked us to wait."""
    is_recoverable: bool = True
    """Whether waiting may help, as it does not with a refused key."""
    last_error: str | None = None
    """What went wrong last; None once it has answered again."""
    _failing_since: float = field(default=0.0, repr=False)
    _open_seconds: float = field(default=0.0, repr=False)

    def admits(self, at: float) -> bool:
        """Say whether a call may be sent at an instant."""
        return self.open_until is None or at >= self.open_until

    def enter(self) -> bool:
        """Note that a call is sent; return whether it is the one that tries."""
        if self.open_until is None:
            return False
        # The others stay out meanwhile, but not for ever: it may hang.
        self.open_until = now() + self._open_seconds
        return True

    def leave(self, *, trying: bool) -> None:
        """Note that a call was broken off, which says nothing."""
        if trying and self.open_until is not None:
            self.open_until = now()

    def succeed(self) -> None:
        """Note that a reply has begun properly."""
        if self.last_error is not None:
            self._close()

    def fail(
        self, error: CoulisseError, breaker: BreakerConfig, *, lone: bool, trying: bool
    ) -> None:
        """Note what a call came to, and open where it is time to."""
        self._pause(error)
        verdict = _classify(error, lone=lone)
        if verdict == "nothing" or not breaker.failures:
            self.leave(trying=trying)
            return
        if verdict == "answered":
            self.succeed()
            return
        self.last_error = str(error)
        self.failures += 1
        if self.failures == 1:
            self._failing_since = now()
        if trying or (
            self.open_until is None and self._reaches_threshold(verdict, breaker)
        ):
            self._open(error, breaker, is_dead=verdict == "dead")

    def _reaches_threshold(self, verdict: FailureClass, breaker: BreakerConfig) -> bool:
        if verdict == "dead":
            return True
        lasted_seconds = now() - self._failing_since
        return (
            self.failures >= breaker.failures
            and lasted_seconds >= breaker.after_seconds
        )

    def _pause(self, error: CoulisseError) -> None:
        seconds = getattr(error, "retry_after_seconds", None)
        if seconds is None and isinstance(error, RateLimited):
            seconds = RATE_LIMIT_PAUSE_SECONDS
        if seconds is not None:
            rests = now() + min(seconds, MAX_RETRY_AFTER_SECONDS)
            self.paused_until = max(self.paused_until, rests)

    def _open(
        self, error: CoulisseError, breaker: BreakerConfig, *, is_dead: bool
    ) -> None:
        first, longest = breaker.open_seconds, MAX_OPEN_SECONDS
        if is_dead:
            first, longest = max(first, DEAD_OPEN_SECONDS), MAX_DEAD_OPEN_SECONDS
        doubled = min(2 * self._open_seconds, longest)
        self._open_seconds = max(first, doubled)
        self.is_recoverable = not is_dead
        until = now() + self._open_seconds
        # What it asks for is a floor under our own time.
        self.open_until = max(until, self.paused_until)
        logger.warning(
            "%s is left alone for %.0f s: %s",
            self.label,
            self.open_until - now(),
            error,
        )

    def _close(self) -> None:
        if self.open_until is not None:
            logger.warning("%s answers again", self.label)
        self.failures = 0
        self.open_until = None
        self.is_recoverable = True
        self.last_error = None
        self._open_seconds = 0.0


def _classify(error: CoulisseError, *, lone: bool) -> FailureClass:
    """Return what a call that failed says of its endpoint."""
    if isinstance(error, (KeyRefused, OutOfCredit)):
        if lone:
            return "answered"
        # A key may be good for some models and not for others.
        is_outright = isinstance(error, OutOfCredit) or error.is_outright
        return "dead" if is_outright else "failing"
    if isinstance(error, (ModelUnknown, RateLimited, RequestRefused)):
        return "answered"
    return "failing" if isinstance(error, ProviderFailed) else "nothing"
