"""What a turn leaves behind: its messages, and the record of what it called."""

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

UNRECORDED = "the record of turn %s was not stored"

logger = logging.getLogger(__name__)


def store_turn(
    record: TurnRecord,
    entries: Sequence[NewMessage],
    *,
    study: ExtractionRequest | None,
    cap: int,
    results: Mapping[str, str],
    telemetry: TelemetryConfig,
    settle: Callable[[], None],
    also: Callable[[], None],
) -> None:
    """Store the messages, the record and the charge of a turn in one transaction.

    `also` writes what follows from it in the same. `results` are the client's, by the
    ids of the calls they answer. What a user said is worth more than how it was
    answered: where the database takes the messages but not the record, they are stored
    without. Where it does not take the messages either, what the turn cost is charged
    all the same, and its error is raised; so is `TurnDiscarded`, which `also` may raise.
    """

    append = partial(
        message_store.append_turn,
        *(record.user_id, record.thread, record.turn_id, entries),
        study=study,
        cap=cap,
    )
    try:
        with transaction.atomic():
            # First the thread is locked, as by those who erase a user.
            append()
            client_tool_results.store_results(record.user_id, results, telemetry)
            turn_store.insert(record, telemetry)
            also()
            # Last, because others wait for the meters it holds.
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
            also()
            settle()
    except (DataError, IntegrityError):
        settle()
        raise


def store_charge(*, settle: Callable[[], None], also: Callable[[], None]) -> None:
    """Charge a turn that leaves no trace, and write what was asked for with it.

    Raises `TurnDiscarded` if `also` does; it is charged all the same.
    """
    try:
        with transaction.atomic():
            also()
            settle()
    except TurnDiscarded:
        settle()
        raise


def store_record(
    record: TurnRecord, telemetry: TelemetryConfig, *, settle: Callable[[], None]
) -> bool:
    """Store the record and the charge of a turn alone, unless its record is there.

    Return whether it was not. Where the database does not take the record, the turn is
    charged without.
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
