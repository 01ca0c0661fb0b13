"""The database lane: the one crossing from the async request to the tables.

A few threads of our own keep their Django connections open for life. A hop onto them
costs about 80 µs, one through `sync_to_async` about 500 (docs/performance.md). SQLite
has one writer at a time anyway, so it gets one thread.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import connection
from django.db.utils import DatabaseError, InterfaceError, OperationalError

from turns.errors import DatabaseDown

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

_executor = ThreadPoolExecutor(settings.COULISSE_DATABASE_THREADS, "database")
_unfinished: set[asyncio.Future[Any]] = set()


async def run(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` on a database thread and return what it returns.

    Raises `DatabaseDown` when the database cannot be reached.
    """
    return await _begin(function, args, kwargs)


async def run_to_end(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` as `run` does, to its end even if the caller is cancelled.

    What must not be lost goes through here: a client that leaves cancels the request,
    not the write.
    """
    trip = _begin(function, args, kwargs)
    _unfinished.add(trip)
    trip.add_done_callback(_unfinished.discard)
    return await asyncio.shield(trip)


async def drain() -> None:
    """Wait for every call that must reach its end; called when the server stops."""
    while _unfinished:
        await asyncio.wait(_unfinished)


def _begin(
    function: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object]
) -> asyncio.Future[T]:
    loop = asyncio.get_running_loop()
    return loop.run_in_executor(_executor, partial(_trip, function, args, kwargs))


def _trip(
    function: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object]
) -> T:
    try:
        return function(*args, **kwargs)
    except (OperationalError, InterfaceError) as exc:
        if connection.connection is not None and not _is_alive():
            # The server restarted since this thread's last trip: try on a new one.
            connection.close()
            return _second_trip(function, args, kwargs)
        raise _down(exc) from exc


def _second_trip(
    function: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object]
) -> T:
    try:
        return function(*args, **kwargs)
    except (OperationalError, InterfaceError) as exc:
        raise _down(exc) from exc


def _is_alive() -> bool:
    # A connection broken inside a transaction answers nothing until it is closed.
    try:
        return connection.is_usable()
    except DatabaseError:
        return False


def _down(exc: Exception) -> DatabaseDown:
    logger.error("the database does not answer: %s", exc)
    connection.close()
    return DatabaseDown()
