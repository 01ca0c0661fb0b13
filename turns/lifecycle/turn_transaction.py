"""Transactions that store a turn: its messages and the record of its calls."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from django.db import transaction
from django.db.utils import DataError, IntegrityError

from database.errors import TurnDiscarded
from memory.extraction.job_queue import ExtractionRequest
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from telemetry.config import TelemetryConfig
from telemetry.storage import client_tool_results, turn_store
from telemetry.types import TurnRecord

UNRECORDED = "could not store the record of turn %s"

logger = logging.getLogger(__name__)


def store_turn(
    record: TurnRecord,
    entries: Sequence[NewMessage],
    *,
    extraction: ExtractionRequest | None,
    cap: int,
    results: Mapping[str, str],
    telemetry: TelemetryConfig,
    settle: Callable[[], None],
    run_hooks: Callable[[], None],
) -> None:
    """Store the messages, the record and the charge of a turn in one transaction.

    `run_hooks` writes further rows in the same transaction. `results` are the results
    of the client's tools, by call id. The user's messages matter more than the record:
    if the database accepts only the messages, they are stored without the record. If it
    does not accept the messages either, or if `run_hooks` raises `TurnDiscarded`, the
    turn is still charged, and the error is raised.
    """

    append = partial(
        message_store.append_turn,
        record.user_id,
        record.thread,
        record.turn_id,
        entries,
        extraction=extraction,
        cap=cap,
    )
    try:
        with transaction.atomic():
            # The thread is locked first, in the same order as the erasure of a user.
            append()
            client_tool_results.store_results(record.user_id, results, telemetry)
            turn_store.insert(record, telemetry)
            run_hooks()
            # Last, because other turns wait for the counters that it locks.
            settle()
        return
    except TurnDiscarded:
        settle()
        raise
    except (DataError, IntegrityError):
        logger.exception(UNRECORDED, record.turn_id)
    try:
        with transaction.atomic():
            append()
            run_hooks()
            settle()
    except (DataError, IntegrityError):
        settle()
        raise


def store_charge(*, settle: Callable[[], None], run_hooks: Callable[[], None]) -> None:
    """Charge an incognito turn, and write the rows of its hooks.

    Raises `TurnDiscarded` if `run_hooks` does; the turn is still charged.
    """
    try:
        with transaction.atomic():
            run_hooks()
            settle()
    except TurnDiscarded:
        settle()
        raise


def store_record(
    record: TurnRecord, telemetry: TelemetryConfig, *, settle: Callable[[], None]
) -> bool:
    """Store only the record and the charge of a turn, unless the record exists.

    Returns whether it was stored. If the database does not accept the record, only the
    charge is stored.
    """
    try:
        with transaction.atomic():
            turn_store.insert(record, telemetry)
            settle()
    except (DataError, IntegrityError):
        if turn_store.is_recorded(record.turn_id):
            return False
        logger.exception(UNRECORDED, record.turn_id)
        settle()
    return True
