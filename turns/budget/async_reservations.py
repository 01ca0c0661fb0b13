"""A turn's allowance, asked for on the database's threads and given back on them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from access.limits.usage_counters import NOTHING, Charge
from database import database_executor
from database.errors import DatabaseDown
from memory.context import turn_context
from memory.context.turn_context import Gathered, Wanted
from turns.budget import reservations
from turns.budget.reservations import Allowance, Wish

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


async def grant(query: Wanted, usage: Wish) -> tuple[Gathered, Allowance]:
    """Read a turn's context and reserve its usage, in one trip to the database.

    Without limits nothing is reserved, and without anything to read there is no trip.
    Raises what `reservations.grant` raises. If the client leaves meanwhile, nothing
    stays reserved.
    """
    if usage.is_limited:
        return await reserved(reservations.grant, query, usage)
    context = Gathered(())
    if query.needs_reading:
        context = await database_executor.run(turn_context.gather, usage.user_id, query)
    return context, Allowance(usage.counter_keys())


async def reserved(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that returns an `Allowance`, alone or second in a pair.

    It runs on a database thread. Its reservation is released if the client leaves
    meanwhile.
    """
    trip = asyncio.create_task(database_executor.run_to_end(function, *args, **kwargs))
    try:
        async with asyncio.timeout(database_executor.MAX_WAIT_SECONDS):
            return await asyncio.shield(trip)
    except TimeoutError as exc:
        trip.add_done_callback(_undo)
        raise DatabaseDown from exc
    except asyncio.CancelledError:
        trip.add_done_callback(_undo)
        raise


def _undo(trip: "asyncio.Task[Any]") -> None:
    """Undo what was set aside for somebody who has left."""
    if trip.cancelled() or trip.exception() is not None:
        return
    granted = trip.result()
    give_back(granted if isinstance(granted, Allowance) else granted[1])


def give_back(allowance: Allowance, charge: Charge = NOTHING) -> None:
    """Undo what was set aside for a turn that does not begin.

    A turn that has cost something already is charged for it, and counts as a request.
    """
    if charge != NOTHING:
        undoing = database_executor.run_to_end(reservations.settle, allowance, charge)
    elif allowance.reservation is not None:
        undoing = database_executor.run_to_end(
            reservations.release, allowance.reservation
        )
    else:
        return
    _undoing.add(task := asyncio.create_task(undoing))
    task.add_done_callback(_undone)


_undoing: set[asyncio.Task[None]] = set()


def _undone(task: asyncio.Task[None]) -> None:
    _undoing.discard(task)
    if not task.cancelled() and task.exception() is not None:
        logger.error("what was set aside is given back late: %s", task.exception())
