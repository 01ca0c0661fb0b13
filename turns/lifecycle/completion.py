"""Saves a turn that has ended: messages, record, charge and post-turn hooks."""

from dataclasses import replace
from functools import partial

from core.errors import recorded_text
from core.reply import Reply
from database import database_executor
from database.errors import DatabaseDown
from memory.extraction import notifier
from telemetry.log_output import logs
from telemetry.types import Outcome
from turns.budget import request_limits, reservations
from turns.lifecycle import (
    deferred_charges,
    post_turn_hooks,
    turn_record,
    turn_transaction,
)
from turns.lifecycle.deferred_charges import DeferredCharge
from turns.turn import EndedTurn, Turn


async def save(
    turn: Turn,
    reply: Reply,
    *,
    outcome: Outcome = "ok",
    error: Exception | None = None,
) -> None:
    """Write the messages, the record and the charge of a turn in one transaction.

    An incognito turn leaves only its charge. A turn that failed without a reply adds
    no messages, nor does a failed turn of a task, because the task may be retried. The
    usage is charged whatever the outcome. Raises `TurnDiscarded` if the task of the
    turn was erased or reassigned.
    """
    charge = turn_record.charge_calls(turn)
    if turn.embeddings:
        charge += request_limits.embedding_charge(turn.config, turn.embeddings)
    record = turn_record.build_record(turn, reply, outcome, error)
    settle = partial(reservations.settle, turn.usage_grant, charge)
    run_hooks = partial(
        post_turn_hooks.run_hooks, EndedTurn(turn, reply, record, outcome)
    )
    is_incognito = turn.request.options.is_incognito
    is_void = outcome == "error" and (
        turn.request.origin == "task" or not reply.has_output
    )
    extraction = None if is_void else turn.extraction_request
    try:
        if is_incognito:
            if turn.usage_grant.is_charged or turn.request.on_end is not None:
                await database_executor.run_to_end(
                    turn_transaction.store_charge, settle=settle, run_hooks=run_hooks
                )
            return
        await database_executor.run_to_end(
            turn_transaction.store_turn,
            record,
            () if is_void else turn_record.transcript_entries(turn, reply, outcome),
            extraction=extraction,
            cap=turn.memory.working_memory_cap,
            results=turn_record.client_tool_results(turn.new),
            telemetry=turn.telemetry,
            settle=settle,
            run_hooks=run_hooks,
        )
    except DatabaseDown as exc:
        if charge.tokens or turn.usage_grant.reservation is not None:
            failed = replace(record, outcome="error", error=recorded_text(error or exc))
            deferred_charges.defer_charge(
                DeferredCharge(failed, charge, settle),
                turn.telemetry,
                is_recorded=not is_incognito,
            )
        raise
    # Logged outside the database thread, so that the event loop does not wait for it.
    if turn.telemetry.fmt.enabled:
        logs.log_turn(record)
    if extraction is not None:
        notifier.notify()
