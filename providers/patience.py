"""How long a call may keep us waiting.

Only waiting counts: the time our own reader takes over an event is not the
provider's.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import aiohttp

from providers.failures import FOREIGN, Source, from_exception, timed_out

T = TypeVar("T")


class Patience:
    """The timeouts of one call and what is left of them."""

    def __init__(self, source: Source, *, stream: bool) -> None:
        timeouts = source.provider.timeouts
        self.received = False
        """Whether the reply has begun: from then on it may only pause so long."""
        self.left = timeouts.total_seconds
        self._idle = timeouts.idle_seconds
        # A whole reply comes at once, at its end: only the total can bound it.
        self._first = timeouts.first_token_seconds if stream else timeouts.total_seconds
        self._first_left = self._first
        self._source = source
        self._time = asyncio.get_running_loop().time

    def begin(self) -> None:
        """Start an attempt, with all the time for its first token."""
        self._first_left = self._first

    def spend(self, seconds: float) -> None:
        """Take a pause of ours off the total."""
        self.left -= seconds

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Wait for the provider; raise our errors for what goes wrong."""
        limit = min(self.left, self._idle if self.received else self._first_left)
        started = self._time()
        try:
            async with asyncio.timeout(limit) as timer:
                return await awaitable
        except FOREIGN as exc:
            if timer.expired() and not isinstance(exc, aiohttp.ServerTimeoutError):
                raise self._timed_out() from exc
            raise from_exception(self._source, exc) from exc
        finally:
            waited = self._time() - started
            self.left -= waited
            self._first_left -= waited

    def _timed_out(self) -> Exception:
        idle = self._idle if self.received else self._first_left
        if self.left <= idle:
            return timed_out(self._source, "total")
        return timed_out(self._source, "idle" if self.received else "first_token")
