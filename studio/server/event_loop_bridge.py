"""From a thread of the studio to the event loop that serves, and back.

What lives there, such as sessions with tool servers, is reached there alone.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from core.errors import Unavailable
from providers import sync_bridge

T = TypeVar("T")


class BridgeTimeout(Unavailable):
    """That took too long: whoever was asked did not answer."""

    code = "took_too_long"


class BridgeBusy(Unavailable):
    """The studio waits for other servers already: try again when they have answered."""

    code = "too_many_asked"


TIMEOUT_SECONDS = 20.0
MAX_WAITING_THREADS = 2
"""Of the studio's threads so many may wait for others: some are left for pages."""

_permits = threading.BoundedSemaphore(MAX_WAITING_THREADS)

_loops: list[asyncio.AbstractEventLoop] = []
"""Of each server of this process: one, but in tests."""


def attach_loop() -> None:
    """Have this thread's event loop be the one; called when the server starts."""
    _loops.append(asyncio.get_running_loop())


def detach_loop() -> None:
    """Reach it no more; called before it stops."""
    _loops.remove(asyncio.get_running_loop())


def run_external(coroutine: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine that asks another server, which may take its time.

    Raises `BridgeBusy` when others do, and `BridgeTimeout`.
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
    """Run a coroutine there; return what it returns or raise what it raises.

    Raises `BridgeTimeout`. Where nothing is being served it is run on the loop of
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
