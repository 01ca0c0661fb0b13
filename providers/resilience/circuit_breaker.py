"""A circuit breaker for each endpoint and model, in this process's memory.

    closed ── failures in a row ──> open ── its time is over ──> one call tries
       ^                              ^                            │      │
       └──────────────────────────────┼───────── it is answered ───┘      │
                                      └──── it fails: twice the time ─────┘

A single endpoint opens only for failures that every request would meet: it is down, or
its replies are broken. A refused key or spent credit is an immediate answer with a more
useful error. With other endpoints available, such a key opens the circuit at once, and
for longer. A rate limit never opens it: the provider states when to retry; until then
the endpoint is chosen last.

Threads and event loops share only plain attributes: concurrent updates of a circuit
miscount by at most one failure. `providers.transport.circuit_sharing` tells the other
processes what opens and closes.
"""

import logging
import time
from collections.abc import Callable
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

KEY_OPEN_SECONDS = 60.0
"""The first pause after a refused key."""
MAX_KEY_OPEN_SECONDS = 600.0
MAX_RETRY_AFTER_SECONDS = 300.0
"""The longest Retry-After that is honoured."""
RATE_LIMIT_PAUSE_SECONDS = 1.0
"""How long a rate-limited endpoint without Retry-After is chosen last."""

FailureClass = Literal["answered", "failing", "bad_key", "unrelated"]

now = time.monotonic
"""The clock; tests replace it."""

observers: list[Callable[["Circuit"], None]] = []
"""Called with each circuit that this process opens or closes."""


@dataclass(slots=True, eq=False)
class Circuit:
    """The state of one endpoint."""

    label: str
    """The endpoint's name in the log."""
    shared_key: str = ""
    """Equal in all processes; "" for a circuit that is not shared."""
    failures: int = 0
    """Consecutive failures since the last reply."""
    open_until: float | None = None
    """When one trial call may be sent; None while the circuit is closed."""
    paused_until: float = 0.0
    """The end of the wait that the endpoint asked for."""
    is_recoverable: bool = True
    """Whether waiting may help; false for a refused key."""
    last_error: str | None = None
    """The last error; None after a reply."""
    probed_until: float = 0.0
    """Until when something else than a user's call asks whether it answers."""
    _failing_since: float = field(default=0.0, repr=False)
    _open_seconds: float = field(default=0.0, repr=False)

    def admits(self, at: float) -> bool:
        return self.open_until is None or at >= self.open_until

    def enter(self) -> bool:
        """Record that a call is sent; return whether it is the trial call."""
        if self.open_until is None:
            return False
        # Other calls stay blocked meanwhile, but not forever: the trial may hang.
        self.open_until = now() + self._open_seconds
        return True

    def leave(self, *, is_probe: bool) -> None:
        """Record a cancelled call, which has no effect on the state."""
        if is_probe and self.open_until is not None:
            self.open_until = now()

    def succeed(self) -> None:
        """Record that a valid reply has begun."""
        if self.last_error is not None:
            self._close()

    def recover(self, breaker: BreakerConfig, *, is_proven: bool) -> None:
        """Record that a probe was answered; the next failure opens the circuit again,
        unless it is proven that the model answers."""
        if is_proven:
            self._close()
        elif self.open_until is not None:
            self._log_closed()
            self.open_until = None
            self.failures = breaker.failures - 1
            announce(self)

    def follow(
        self, seconds: float, error: str, *, failures: int = 0, is_recoverable: bool
    ) -> None:
        """Open as in another process, for the rest of its time: 0 to close.

        `failures` is how many it has counted.
        """
        if not seconds:
            if self.open_until is not None:
                self._log_closed()
            self._reset()
            self.failures = failures
            return
        if self.open_until is None:
            self._log_open(seconds, error)
        self.open_until = max(self.open_until or 0.0, now() + seconds)
        self._open_seconds = self._open_seconds or seconds
        self.last_error, self.is_recoverable = error, is_recoverable

    def fail(
        self,
        error: CoulisseError,
        breaker: BreakerConfig,
        *,
        is_only_endpoint: bool,
        is_probe: bool,
    ) -> None:
        """Record a failed call, and open the circuit if needed."""
        self._pause(error)
        failure_class = _classify(error, is_only_endpoint=is_only_endpoint)
        if failure_class == "unrelated" or not breaker.failures:
            self.leave(is_probe=is_probe)
            return
        if failure_class == "answered":
            self.succeed()
            return
        self.last_error = str(error)
        self.failures += 1
        if self.failures == 1:
            self._failing_since = now()
        if is_probe or (
            self.open_until is None and self._reaches_threshold(failure_class, breaker)
        ):
            self._open(breaker, is_key_failure=failure_class == "bad_key")

    def _reaches_threshold(
        self, failure_class: FailureClass, breaker: BreakerConfig
    ) -> bool:
        if failure_class == "bad_key":
            return True
        is_long = now() - self._failing_since >= breaker.after_seconds
        return is_long and self.failures >= breaker.failures

    def _pause(self, error: CoulisseError) -> None:
        seconds = getattr(error, "retry_after_seconds", None)
        if seconds is None and isinstance(error, RateLimited):
            seconds = RATE_LIMIT_PAUSE_SECONDS
        if seconds is not None:
            ends_at = now() + min(seconds, MAX_RETRY_AFTER_SECONDS)
            self.paused_until = max(self.paused_until, ends_at)

    def _open(self, breaker: BreakerConfig, *, is_key_failure: bool) -> None:
        first = breaker.open_seconds
        longest = max(first, breaker.max_open_seconds)
        if is_key_failure:
            first, longest = max(first, KEY_OPEN_SECONDS), MAX_KEY_OPEN_SECONDS
        doubled = min(2 * self._open_seconds, longest)
        self._open_seconds = min(max(first, doubled), longest)
        self.is_recoverable = not is_key_failure
        until = now() + self._open_seconds
        # The endpoint's Retry-After is the minimum.
        self.open_until = max(until, self.paused_until)
        self._log_open(self.open_until - now(), self.last_error)
        announce(self)

    def _log_open(self, seconds: float, error: str | None) -> None:
        logger.warning(
            "%s: circuit breaker open for %.0f s: %s", self.label, seconds, error
        )

    def _log_closed(self) -> None:
        logger.warning("%s: circuit breaker closed", self.label)

    def _close(self) -> None:
        was_open = self.open_until is not None
        self._reset()
        if was_open:
            self._log_closed()
            announce(self)

    def _reset(self) -> None:
        self.failures = 0
        self.open_until = None
        self.is_recoverable = True
        self.last_error = None
        self._open_seconds = 0.0


def announce(circuit: Circuit) -> None:
    """Tell the observers the state of a circuit, unless it is not shared."""
    for observe in observers if circuit.shared_key else ():
        observe(circuit)


def _classify(error: CoulisseError, *, is_only_endpoint: bool) -> FailureClass:
    if isinstance(error, (KeyRefused, OutOfCredit)):
        if is_only_endpoint:
            return "answered"
        # A key may be valid for some models only.
        is_key_failure = isinstance(error, OutOfCredit) or error.is_invalid
        return "bad_key" if is_key_failure else "failing"
    if isinstance(error, (ModelUnknown, RateLimited, RequestRefused)):
        return "answered"
    return "failing" if isinstance(error, ProviderFailed) else "unrelated"
