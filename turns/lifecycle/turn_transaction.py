"""Transactions that store a turn: its messages and the record of its calls."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from django.db import transaction
from django.db.utils import DataError, IntegrityError

from database.errors import TurnDiscarded
from memory.facts import forgetting
from memory.models.sessions import EndReason
from memory.sessions import session_end
from memory.transcript import agent_states, message_store
from memory.transcript.message_rows import NewMessage
from memory.transcript.withholding import NO_FACTS, TouchedFacts
from telemetry.config import TelemetryConfig
from telemetry.models import Turn
from telemetry.storage import client_tool_results, turn_store
from telemetry.types import TurnRecord
from turns.budget import request_usage
from turns.lifecycle import post_turn_hooks, turn_record
from turns.tools import memory_tools
from turns.turn import EndedTurn

UNRECORDED = "could not store the record of turn %s"

logger = logging.getLogger(__name__)


def store_turn(ended: EndedTurn, entries: Sequence[NewMessage]) -> None:
    """Store the messages, the record and the charge of a turn in one transaction.

    The user's messages matter more than the record: if the database accepts only the
    messages, they are stored without the record. If it does not accept the messages
    either, if a hook raises `TurnDiscarded`, or if the user was erased since the turn
    began, the turn is still charged, and the error is raised.
    """
    turn, record = ended.turn, ended.record
    facts = _touched_facts(ended)
    append_messages = partial(
        message_store.append_turn,
        record.user_id,
        record.thread,
        record.turn_id,
        entries,
        extraction=ended.extraction_request,
        cap=turn.memory.working_memory_cap,
        sent=turn_record.sent_conversation(ended, entries) if entries else None,
        facts=facts,
        begun_at=turn.started.at,
    )

    def append() -> str:
        thread = append_messages()
        is_stored = not ended.is_void and not facts.is_refused
        if is_stored and turn.state is not None and turn.state.changes:
            # To the thread from which it was read, even if the turn is moved to one of
            # its own.
            agent_states.change_in_turn(
                record.user_id,
                turn.request.options.thread,
                turn.agent.name,
                turn.state.reduce,
            )
            forgetting.remove_from_states(record.user_id, facts.forgotten)
        return thread

    try:
        with transaction.atomic():
            # The thread is locked first, in the same order as the erasure of a user.
            thread = append()
            if thread != record.thread:
                record = replace(record, thread=thread)
            _end_session(ended, thread)
            results = turn_record.client_tool_results(turn.new)
            client_tool_results.store_results(record.user_id, results, turn.telemetry)
            ended_at = turn.started.clock + record.seconds
            record.diagnostics.save_seconds = time.perf_counter() - ended_at
            turn_store.insert(record, turn.telemetry)
            if turn.embeddings:
                request_usage.record_embeddings(turn.config, turn.embeddings)
            post_turn_hooks.run_hooks(ended)
            # Last, because other turns wait for the counters that it locks.
            ended.settle()
        return
    except TurnDiscarded:
        ended.settle()
        raise
    except (DataError, IntegrityError):
        logger.exception(UNRECORDED, record.turn_id)
    try:
        with transaction.atomic():
            _end_session(ended, append())
            post_turn_hooks.run_hooks(ended)
            ended.settle()
    except (DataError, IntegrityError):
        ended.settle()
        raise


def _touched_facts(ended: EndedTurn) -> TouchedFacts:
    turn = ended.turn
    facts = memory_tools.touched_facts(turn.record) if turn.tools else NO_FACTS
    if turn.safety is not None and turn.safety.decide_withholding():
        return replace(facts, is_refused=True)
    return facts


def _end_session(ended: EndedTurn, thread: str) -> None:
    if ended.turn.request.options.ends_session and ended.outcome == "ok":
        session_end.end_of_user(ended.record.user_id, thread, EndReason.REQUEST)


def store_charge(ended: EndedTurn) -> None:
    """Charge an incognito turn, and write the rows of its hooks.

    Raises `TurnDiscarded` if a hook does; the turn is still charged.
    """
    try:
        with transaction.atomic():
            post_turn_hooks.run_hooks(ended)
            ended.settle()
    except TurnDiscarded:
        ended.settle()
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
        if Turn.objects.filter(pk=record.turn_id).exists():
            return False
        logger.exception(UNRECORDED, record.turn_id)
        settle()
    return True
