"""The time limit for clients that do not read their response."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from core.runtime import request_facts

logger = logging.getLogger(__name__)

SEND_TIMEOUT_SECONDS = 60.0

Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class SlowClientGuard:
    """Sends for a task, and cancels it when the client stops reading.

    A timer for each frame would cost more than the frame. So there is one timer, which
    checks at its expiry how long the current frame has waited.
    """

    def __init__(self, send: Send, task: asyncio.Task[Any] | None) -> None:
        self._send = send
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._sending_since: float | None = None
        self._timer = self._loop.call_later(SEND_TIMEOUT_SECONDS, self._check_deadline)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; wait for up to `SEND_TIMEOUT_SECONDS`."""
        self._sending_since = self._loop.time()
        await self._send(message)
        self._sending_since = None

    def close(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def _check_deadline(self) -> None:
        since = self._sending_since
        waited = 0.0 if since is None else self._loop.time() - since
        if self._task is not None and waited >= SEND_TIMEOUT_SECONDS:
            request_facts.note(cut="slow_client")
            logger.warning("cancelling a response: its client has stopped reading")
            self._task.cancel()
        else:
            self._timer = self._loop.call_later(
                SEND_TIMEOUT_SECONDS - waited, self._check_deadline
            )
