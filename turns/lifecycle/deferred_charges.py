"""Charges of turns whose end could not be stored.

Their messages are lost, and the client received an error. The provider was paid, so the
turns are charged when the database is back. Charges that fail for good are logged.
"""

import asyncio
import logging
from dataclasses import dataclass, replace
from functools import partial

from access.limits.usage_counters import Charge
from core import money
from core.errors import recorded_text
from database import database_executor
from database.errors import DatabaseDown
from telemetry.config import TelemetryConfig
from telemetry.types import TurnRecord
from turns.budget.usage_grant import UsageGrant
from turns.lifecycle import turn_transaction
from turns.turn import EndedTurn

RETRY_DELAYS_SECONDS = (1.0, 5.0, 15.0, 60.0, 120.0, 300.0)
"""Delay before each attempt. The turn's reservation covers them all."""

logger = logging.getLogger(__name__)

_pending_charges: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True)
class DeferredCharge:
    """A turn that ended and is not charged yet."""

    record: TurnRecord
    charge: Charge
    grant: UsageGrant
    telemetry: TelemetryConfig

    def __str__(self) -> str:
        cost = money.format_usd(self.charge.micro_usd)
        if not self.charge.is_priced:
            cost += " plus calls without a known price"
        token_id = self.record.token_id
        return (
            f"turn {self.record.turn_id}"
            + ("" if token_id is None else f" of API token {token_id}")
            + f" ({self.charge.tokens} tokens, {cost})"
        )


def defer_charge(ended: EndedTurn, error: Exception) -> None:
    """Charge a turn later and store its record; the record's key prevents a second
    charge.

    A turn without a record is only logged: after a lost connection it is unknown
    whether the charge was stored.
    """
    turn = ended.turn
    record = replace(ended.record, outcome="error", error=recorded_text(error))
    deferred = DeferredCharge(record, ended.charge, turn.usage_grant, turn.telemetry)
    if ended.is_incognito or not turn.telemetry.sqlite.enabled:
        logger.error("could not charge %s: database unavailable", deferred)
        return
    logger.error("charging %s later: database unavailable", deferred)
    _pending_charges.add(task := asyncio.create_task(_retry_charge(deferred)))
    task.add_done_callback(_pending_charges.discard)


async def _retry_charge(deferred: DeferredCharge) -> None:
    try:
        for delay in RETRY_DELAYS_SECONDS:
            await asyncio.sleep(delay)
            try:
                is_new = await database_executor.run_to_end(
                    turn_transaction.store_record,
                    deferred.record,
                    deferred.telemetry,
                    settle=partial(deferred.grant.settle, deferred.charge),
                )
            except DatabaseDown:
                continue
            logger.info("%s %s", "charged" if is_new else "already charged", deferred)
            return
    except Exception:
        logger.exception("could not charge %s", deferred)
        return
    except asyncio.CancelledError:
        logger.error("could not charge %s: the server is stopping", deferred)
        raise
    logger.error("could not charge %s: database still unavailable", deferred)
