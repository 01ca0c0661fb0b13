"""The timeouts of a call.

Only waiting counts, not the time that our consumer spends on an event.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiohttp

from core.errors import CoulisseError
from providers.errors import TimedOut
from providers.resilience.error_mapping import (
    TRANSPORT_ERRORS,
    ProviderSource,
    from_exception,
    timeout_error,
)

T = TypeVar("T")


class CallDeadline:
    """The timeouts of one call, and the time left."""

    def __init__(
        self,
        source: ProviderSource,
        *,
        stream: bool,
        has_fallback: bool = False,
        is_slow: bool = False,
    ) -> None:
        """`is_slow` is true for a model that may think for long before it answers."""
        timeouts = source.provider.timeouts
        self.received = False
        """Whether the reply has begun: from then on the idle timeout applies."""
        self.seconds_left = timeouts.total_seconds
        self._idle_seconds = timeouts.idle(has_fallback=has_fallback)
        self._first_token_seconds = timeouts.total_seconds
        # The head of an unstreamed reply arrives at its end: only the total applies.
        if stream:
            self._first_token_seconds = timeouts.first_token(
                has_fallback=has_fallback, is_slow=is_slow
            )
        self._first_token_seconds_left = self._first_token_seconds
        self._source = source
        self._time = asyncio.get_running_loop().time

    def start_attempt(self, source: ProviderSource) -> None:
        """Start an attempt, with the full timeout for its first token."""
        self._source = source
        self._first_token_seconds_left = self._first_token_seconds

    def subtract_pause(self, seconds: float) -> None:
        """Exclude our own pause from the total."""
        self.seconds_left -= seconds

    @property
    def next_wait_seconds(self) -> float:
        """Return the seconds the next wait may take."""
        return min(
            self.seconds_left,
            self._idle_seconds if self.received else self._first_token_seconds_left,
        )

    def subtract_wait(self, seconds: float) -> None:
        self.seconds_left -= seconds
        self._first_token_seconds_left -= seconds

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Wait for the provider; raise the errors of `providers.errors`."""
        started = self._time()
        try:
            async with asyncio.timeout(self.next_wait_seconds) as timer:
                return await awaitable
        except TRANSPORT_ERRORS as exc:
            if timer.expired() and not isinstance(exc, aiohttp.ServerTimeoutError):
                raise self.timeout_error() from exc
            raise from_exception(self._source, exc) from exc
        finally:
            self.subtract_wait(self._time() - started)

    def timeout_error(self) -> TimedOut:
        if self.next_wait_seconds == self.seconds_left:
            total = self._source.provider.timeouts.total_seconds
            return timeout_error(self._source, "total", total)
        if self.received:
            return timeout_error(self._source, "idle", self._idle_seconds)
        return timeout_error(self._source, "first_token", self._first_token_seconds)


class ReadWatchdog:
    """Breaks a stream when one of its reads takes too long.

    A timer per read would cost more than the read. A single timer runs and, when it
    expires, checks how long the current read has waited.
    """

    def __init__(
        self, deadline: CallDeadline, close_stream: Callable[[], None]
    ) -> None:
        self._deadline = deadline
        self._close_stream = close_stream
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due_at = 0.0
        self._read_started_at: float | None = None
        self._error: TimedOut | None = None

    def start_read(self) -> None:
        self._read_started_at = self._loop.time()
        # The new deadline is earlier only once: after the first token.
        if (
            self._timer is None
            or self._read_started_at + self._deadline.next_wait_seconds < self._due_at
        ):
            self._schedule(self._read_started_at)

    def end_read(self) -> None:
        if self._read_started_at is not None:
            self._deadline.subtract_wait(self._loop.time() - self._read_started_at)
            self._read_started_at = None

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def error(self, source: ProviderSource, exc: BaseException) -> CoulisseError:
        """Return the error for a failed read: our timeout, or its own failure."""
        return self._error or from_exception(source, exc)

    def _schedule(self, started_at: float) -> None:
        self.close()
        self._due_at = started_at + self._deadline.next_wait_seconds
        self._timer = self._loop.call_at(self._due_at, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._read_started_at is None:
            return
        if self._loop.time() - self._read_started_at < self._deadline.next_wait_seconds:
            self._schedule(self._read_started_at)
        else:
            self._error = self._deadline.timeout_error()
            self._close_stream()
