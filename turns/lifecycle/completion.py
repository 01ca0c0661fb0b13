"""Saves a turn that has ended: messages, record, charge and post-turn hooks."""

from core.reply import Reply
from database import database_executor
from database.errors import DatabaseDown
from telemetry.log_output import logs
from telemetry.metrics import recording
from telemetry.metrics.figures import Reference
from telemetry.request_log import turn_facts
from telemetry.tracing import turn_spans
from telemetry.types import Outcome, TurnRecord
from turns.budget import request_limits
from turns.lifecycle import deferred_charges, turn_record, turn_transaction
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
    turn was erased or reassigned, or `UserErased`.
    """
    charge = turn_record.charge_calls(turn)
    if turn.embeddings:
        charge += request_limits.embedding_charge(turn.config, turn.embeddings)
    record = turn_record.build_record(turn, reply, outcome, error)
    ended = EndedTurn(turn, reply, record, outcome, charge)
    if recording.active is not None:
        recording.active.turn_ended(record, find_reference(ended))
    try:
        if ended.is_incognito:
            if turn.usage_grant.is_charged or turn.request.on_end is not None:
                await database_executor.run_to_end(turn_transaction.store_charge, ended)
            return
        turn_facts.note_turn(record)
        await database_executor.run_to_end(
            turn_transaction.store_turn,
            ended,
            () if ended.is_void else turn_record.transcript_entries(ended),
        )
    except DatabaseDown as exc:
        if charge.tokens or turn.usage_grant.reservation is not None:
            deferred_charges.defer_charge(ended, error or exc)
        export_spans(turn, reply, record, error or exc)
        raise
    # Logged outside the database thread, so that the event loop does not wait for it.
    if turn.telemetry.fmt.enabled:
        logs.log_turn(record)
    export_spans(turn, reply, record, error)


def find_reference(ended: EndedTurn) -> Reference | None:
    """Return what the exemplars of the metrics name: an exported trace, or the turn.

    Neither exists for an incognito turn.
    """
    turn = ended.turn
    if ended.is_incognito:
        return None
    if turn.span is not None and turn.span.is_sampled:
        return "trace_id", turn.span.trace_id
    return "turn_id", ended.record.turn_id


def export_spans(
    turn: Turn, reply: Reply, record: TurnRecord, error: Exception | None
) -> None:
    """Export the spans of a turn, if traces are configured."""
    if turn.span is not None:
        turn_spans.export(
            record,
            turn.span,
            turn.config,
            prompt=turn.prompt,
            reply=reply.text or reply.refusal,
            error=error,
        )
