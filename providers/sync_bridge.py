"""Calls to providers from code that is not async: background jobs, commands.

    rows = blocking.wait(embedders.embed(embedder, texts), timeout_seconds=30)

All of a process run on one event loop, in a thread of its own, so that they share
their connections. A fork gets another.
"""

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from providers import client

T = TypeVar("T")

CLOSE_SECONDS = 5.0
"""How long to wait for calls that do not want to end."""


def run_sync(coroutine: Coroutine[Any, Any, T], *, timeout_seconds: float) -> T:
    """Run a coroutine to its end; return what it returns or raise what it raises.

    At the timeout it is cancelled, which raises TimeoutError. RuntimeError when called
    from a thread that runs an event loop: it would stand still meanwhile.
    """
    if _has_loop():
        coroutine.close()
        raise RuntimeError("await the coroutine: this thread runs an event loop")
    with _loop_thread.lock:
        loop = _loop_thread.running_loop()
        future = asyncio.run_coroutine_threadsafe(
            _with_timeout(coroutine, timeout_seconds), loop
        )
    try:
        return future.result(timeout_seconds + CLOSE_SECONDS)
    finally:
        # Interrupted, by a signal say, or deaf to being cancelled.
        future.cancel()


def start(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine on the same event loop, and wait for nothing.

    It runs until it ends or `close` cancels it.
    """
    with _loop_thread.lock:
        return asyncio.run_coroutine_threadsafe(coroutine, _loop_thread.running_loop())


def close() -> None:
    """End the event loop with its calls and connections; the next call starts another.

    Called at the end of a process.
    """
    with _loop_thread.lock:
        _loop_thread.stop()


def _has_loop() -> bool:
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False


async def _with_timeout(coroutine: Coroutine[Any, Any, T], timeout_seconds: float) -> T:
    async with asyncio.timeout(timeout_seconds):
        return await coroutine


class _LoopThread:
    """The event loop of a process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, started if it is not running."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="blocking", daemon=True
            )
            self._thread.start()
        return self._loop

    def stop(self) -> None:
        """Cancel what runs, close connections, end the thread."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_shut_down(), loop).result(CLOSE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_SECONDS)
        # A call that blocks the loop cannot be helped; the thread is a daemon.
        if not thread.is_alive():
            loop.close()


async def _shut_down() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await client.close()


_loop_thread = _LoopThread()
# Let go of, the loop of another process would take our files with it.
_earlier_threads: list[_LoopThread] = []


def _reset_after_fork() -> None:
    global _loop_thread
    _earlier_threads.append(_loop_thread)
    _loop_thread = _LoopThread()


os.register_at_fork(after_in_child=_reset_after_fork)
atexit.register(close)
