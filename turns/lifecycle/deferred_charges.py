"""What turns cost that could not be written down when they ended.

Their messages are lost, as their clients were told. The provider was paid all the
same, so they are charged once the database is back; what cannot be is in the log.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from access.limits import dollars
from access.limits.usage_counters import Charge
from database import database_executor
from database.errors import DatabaseDown
from telemetry.config import TelemetryConfig
from telemetry.types import TurnRecord
from turns.lifecycle import turn_transaction

RETRY_DELAYS_SECONDS = (1.0, 5.0, 15.0, 60.0, 120.0, 300.0)
"""Before each try. What the turn set aside stands in for its charge as long."""

logger = logging.getLogger(__name__)

_pending_charges: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True)
class DeferredCharge:
    """A turn that ended and is not charged."""

    record: TurnRecord
    charge: Charge
    settle: Callable[[], None]

    def __str__(self) -> str:
        cost = dollars.format_usd(self.charge.micro_usd)
        if not self.charge.is_priced:
            cost += " and what has no known price"
        whose = self.record.token_id
        return (
            f"turn {self.record.turn_id}"
            + ("" if whose is None else f" of API token {whose}")
            + f": {self.charge.tokens} tokens, {cost}"
        )


def defer_charge(
    debt: DeferredCharge, telemetry: TelemetryConfig, *, is_recorded: bool
) -> None:
    """Have a turn be charged later, with its record, whose key keeps it from twice.

    One that leaves no record is told of in the log alone: where a connection is lost
    nobody knows whether the charge was, too.
    """
    if not (is_recorded and telemetry.sqlite.enabled):
        logger.error("%s are not charged: the database was away", debt)
        return
    logger.error("%s are not charged yet: the database is away", debt)
    _pending_charges.add(task := asyncio.create_task(_retry_charge(debt, telemetry)))
    task.add_done_callback(_pending_charges.discard)


async def _retry_charge(debt: DeferredCharge, telemetry: TelemetryConfig) -> None:
    try:
        for pause in RETRY_DELAYS_SECONDS:
            await asyncio.sleep(pause)
            try:
                is_new = await database_executor.run_to_end(
                    turn_transaction.store_record,
                    debt.record,
                    telemetry,
                    settle=debt.settle,
                )
            except DatabaseDown:
                continue
            how = "are charged now" if is_new else "were charged after all"
            logger.info("%s %s", debt, how)
            return
    except Exception:
        logger.exception("%s are never charged", debt)
        return
    except asyncio.CancelledError:
        logger.error("%s are never charged: the server stops", debt)
        raise
    logger.error("%s are never charged: the database stays away", debt)
