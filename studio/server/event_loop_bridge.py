"""The bridge from the studio's threads to the server's event loop.

Objects of the event loop, such as sessions with tool servers, are used only there.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from core.errors import Unavailable
from providers import sync_bridge

T = TypeVar("T")


class BridgeTimeout(Unavailable):
    """The other server did not answer in time; try again."""

    code = "took_too_long"


class BridgeBusy(Unavailable):
    """The studio is already waiting for other servers; try again in a moment."""

    code = "too_many_asked"


TIMEOUT_SECONDS = 20.0
MAX_WAITING_THREADS = 2
"""How many of the studio's threads may wait for other servers; the rest serve pages."""

_permits = threading.BoundedSemaphore(MAX_WAITING_THREADS)

_loops: list[asyncio.AbstractEventLoop] = []
"""One for each server of this process; only tests have several."""


def attach_loop() -> None:
    """Register this thread's event loop; called when the server starts."""
    _loops.append(asyncio.get_running_loop())


def detach_loop() -> None:
    """Unregister it; called before the server stops."""
    _loops.remove(asyncio.get_running_loop())


def run_external(coroutine: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine that calls another server and may take long.

    Raises `BridgeBusy` while too many threads wait, and `BridgeTimeout`.
    """
    if not _permits.acquire(blocking=False):
        coroutine.close()
        raise BridgeBusy
    try:
        return run_on_loop(coroutine)
    finally:
        _permits.release()


def run_on_loop(
    coroutine: Coroutine[Any, Any, T], seconds: float = TIMEOUT_SECONDS
) -> T:
    """Run a coroutine on the event loop; return its result or raise its error.

    Raises `BridgeTimeout`. Without a server, the coroutine runs on the loop of
    background work.
    """
    if not _loops:
        return sync_bridge.run_sync(coroutine, timeout_seconds=seconds)
    future = asyncio.run_coroutine_threadsafe(coroutine, _loops[-1])
    try:
        return future.result(seconds)
    except TimeoutError:
        raise BridgeTimeout from None
    finally:
        future.cancel()
