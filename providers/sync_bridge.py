"""Call providers from synchronous code: background jobs, commands.

    rows = run_sync(embedders.embed_texts(embedder, texts), timeout_seconds=30)

All calls of a process run on one event loop, in a dedicated thread, and share
connections. A forked process gets its own.
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
"""How long to wait for calls that do not end when cancelled."""


def run_sync(coroutine: Coroutine[Any, Any, T], *, timeout_seconds: float) -> T:
    """Run a coroutine to its end; return its result or raise its exception.

    At the timeout it is cancelled and TimeoutError is raised. Raises RuntimeError in a
    thread that runs an event loop, because it would block the loop.
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
        # Interrupted by a signal, or still running after its cancellation.
        future.cancel()


def start(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine on the same event loop without waiting for it.

    It runs until it ends or `close` cancels it.
    """
    with _loop_thread.lock:
        return asyncio.run_coroutine_threadsafe(coroutine, _loop_thread.running_loop())


def close() -> None:
    """Stop the event loop, its calls and connections; the next call starts another.

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
                target=self._loop.run_forever, name="sync-bridge", daemon=True
            )
            self._thread.start()
        return self._loop

    def stop(self) -> None:
        """Cancel running calls, close connections, stop the thread."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_shut_down(), loop).result(CLOSE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_SECONDS)
        # A call may block the loop; the thread is a daemon.
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
# Garbage collection of the parent process's loop would close our files.
_earlier_threads: list[_LoopThread] = []


def _reset_after_fork() -> None:
    global _loop_thread
    _earlier_threads.append(_loop_thread)
    _loop_thread = _LoopThread()


os.register_at_fork(after_in_child=_reset_after_fork)
atexit.register(close)
