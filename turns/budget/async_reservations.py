"""Makes and releases a turn's reservation on the database threads."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from database import database_executor
from database.errors import DatabaseDown
from memory.recall.context import turn_context
from memory.recall.context.turn_context import Context, ContextQuery
from turns.budget import reservations
from turns.budget.reservations import TurnUsageRequest
from turns.budget.usage_grant import UsageGrant

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


async def load_context_and_reserve(
    query: ContextQuery, usage: TurnUsageRequest
) -> tuple[Context, UsageGrant]:
    """Read a turn's context and reserve its usage in one call on a database thread.

    Without limits nothing is reserved; if there is nothing to read either, the database
    is not used. Raises what `reservations.load_context_and_reserve` raises. If
    the client disconnects meanwhile, the reservation is released.
    """
    if usage.is_limited:
        return await call_with_release(
            reservations.load_context_and_reserve, query, usage
        )
    context = Context(())
    if query.needs_reading:
        context = await database_executor.run(
            turn_context.load_context, usage.user_id, query
        )
    return context, UsageGrant(usage.counter_keys())


async def call_with_release(
    function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function that returns a `UsageGrant`, alone or second in a pair.

    It runs on a database thread. If the client disconnects meanwhile, the reservation
    is released.
    """
    task = asyncio.create_task(database_executor.run_to_end(function, *args, **kwargs))
    try:
        async with asyncio.timeout(database_executor.MAX_WAIT_SECONDS):
            return await asyncio.shield(task)
    except TimeoutError as exc:
        task.add_done_callback(_release_result)
        raise DatabaseDown from exc
    except asyncio.CancelledError:
        task.add_done_callback(_release_result)
        raise


def _release_result(task: "asyncio.Task[Any]") -> None:
    """Release the reservation of a client that disconnected."""
    if task.cancelled() or task.exception() is not None:
        return
    result = task.result()
    release_later(result if isinstance(result, UsageGrant) else result[1])


def release_later(grant: UsageGrant) -> None:
    """Release the reservation of a turn that does not begin."""
    if grant.reservation is not None:
        run_later(grant.release)


def run_later(release: Callable[[], None]) -> None:
    """Call what releases a reservation on a database thread; do not wait for it."""
    _pending_releases.add(
        task := asyncio.create_task(database_executor.run_to_end(release))
    )
    task.add_done_callback(_finish_release)


_pending_releases: set[asyncio.Task[None]] = set()


def _finish_release(task: asyncio.Task[None]) -> None:
    _pending_releases.discard(task)
    if not task.cancelled() and task.exception() is not None:
        logger.error(
            "could not release a reservation, it will expire: %s", task.exception()
        )
