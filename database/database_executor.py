"""The database executor: the only path from async requests to the tables.

A few dedicated threads keep their Django connections open permanently. A call on them
costs about 80 µs, one through `sync_to_async` about 500 (docs/performance.md). SQLite
has one writer at a time anyway, so it gets one thread.
"""

import asyncio
import logging
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

from django.conf import settings
from django.db import connection
from django.db.utils import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
)

from core.runtime import request_ids, trace_context
from core.runtime.trace_context import TraceContext
from database.errors import DatabaseDown, TurnDiscarded

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 10

_executor = ThreadPoolExecutor(settings.COULISSE_DATABASE_THREADS, "database")
on_failure: Callable[[Exception], None] | None = None
"""Called on the thread of a call that found the database unavailable."""
_pending_writes: set[asyncio.Future[Any]] = set()


async def run(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a reading function on a database thread and return its result.

    Retries once if the connection is lost. Raises `DatabaseDown` if the database is
    unreachable, lacks the tables, or does not answer within `MAX_WAIT_SECONDS`.
    """
    try:
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            return await _submit(_read, function, args, kwargs)
    except TimeoutError as exc:
        raise DatabaseDown from exc


async def run_to_end(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a writing function once, and complete it even if the caller is cancelled.

    Use this for writes that must not be lost: a disconnecting client cancels the
    request, not the write. Raises the same errors as `run`.
    """
    write = _submit(_write, function, args, kwargs)
    _pending_writes.add(write)
    write.add_done_callback(_pending_writes.discard)
    try:
        return await asyncio.shield(write)
    except asyncio.CancelledError:
        write.add_done_callback(_log_failure)
        raise


def _log_failure(write: asyncio.Future[Any]) -> None:
    """Log the failure of a write whose caller was cancelled."""
    error = None if write.cancelled() else write.exception()
    # TurnDiscarded is expected, and DatabaseDown is already logged.
    if error is not None and not isinstance(error, TurnDiscarded | DatabaseDown):
        logger.error("a write of a cancelled request failed", exc_info=error)


class ExecutorUsage(NamedTuple):
    """The threads of this process for the database, and the calls for them."""

    threads: int
    busy: int
    waiting: int


def usage() -> ExecutorUsage:
    """Return the current usage, for metrics."""
    # Counting would cost each call. An idle thread waits for the queue of its executor,
    # in C code, so its latest Python frame is the one that takes calls from there.
    frames = sys._current_frames()
    latest = [frames.get(each.ident or 0) for each in _executor._threads]
    busy = sum(
        frame is not None and frame.f_code.co_name != "_worker" for frame in latest
    )
    waiting = _executor._work_queue.qsize()
    return ExecutorUsage(settings.COULISSE_DATABASE_THREADS, busy, waiting)


async def wait_for_writes() -> None:
    """Wait for this event loop's calls of `run_to_end`; called when the server stops.

    Calls of another event loop end in its thread and cannot wake this one.
    """
    loop = asyncio.get_running_loop()
    while own := [each for each in _pending_writes.copy() if each.get_loop() is loop]:
        await asyncio.wait(own)


Arguments = tuple[object, ...]
Keywords = dict[str, object]


def _submit(
    caller: Callable[[Callable[..., T], Arguments, Keywords], T],
    function: Callable[..., T],
    args: Arguments,
    kwargs: Keywords,
) -> asyncio.Future[T]:
    loop = asyncio.get_running_loop()
    call = partial(
        _call_with_request_id, request_ids.current.get(), caller, function, args, kwargs
    )
    if (span := trace_context.current.get()) is not None:
        call = partial(_call_within_span, span, call)
    return loop.run_in_executor(_executor, call)


def _call_with_request_id(
    request_id: str,
    caller: Callable[[Callable[..., T], Arguments, Keywords], T],
    function: Callable[..., T],
    args: Arguments,
    kwargs: Keywords,
) -> T:
    # Executor threads inherit no context, and copying the whole context costs more.
    request_ids.current.set(request_id)
    return caller(function, args, kwargs)


def _call_within_span(span: TraceContext, call: Callable[[], T]) -> T:
    trace_context.current.set(span)
    try:
        return call()
    finally:
        trace_context.current.set(None)


def _read(function: Callable[..., T], args: Arguments, kwargs: Keywords) -> T:
    before = connection.connection
    try:
        return _call(function, args, kwargs)
    except DatabaseDown:
        if before is None:
            raise
        # The database may have restarted since this thread's last call.
        return _call(function, args, kwargs)


def _write(function: Callable[..., T], args: Arguments, kwargs: Keywords) -> T:
    # Checked first, because a write cannot be repeated: it may have completed before
    # the connection was lost. SQLite answers without I/O.
    if connection.connection is not None and not connection.is_usable():
        connection.close()
    return _call(function, args, kwargs)


def _call(function: Callable[..., T], args: Arguments, kwargs: Keywords) -> T:
    try:
        return function(*args, **kwargs)
    except (DataError, IntegrityError):
        raise  # A programming error, not a database failure.
    except (DatabaseError, InterfaceError) as exc:
        logger.error("database unavailable: %s", exc)
        connection.close()
        if on_failure is not None:
            on_failure(exc)
        raise DatabaseDown from exc
