"""The record of a turn: in the live view while it runs, and stored when it ends."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from access.limits.usage_counters import Charge
from core import token_estimates, trace
from core.errors import CoulisseError, recorded_text
from core.events import ServedBy
from core.messages import Message
from core.reply import Reply
from memory.facts import public_ids
from memory.recall import query_embedding
from memory.transcript.branches import SentConversation
from memory.transcript.message_rows import NewMessage
from providers.pricing import call_costs
from telemetry.live_turns.active_turns import ACTIVE_TURNS, ActiveTurn
from telemetry.types import Outcome, TurnRecord
from turns.preparation import prompt
from turns.turn import EndedTurn, Turn


def register_live(turn: Turn) -> None:
    """Show a turn in the studio's live view, unless it is incognito.

    This takes about a microsecond: the fields are read only when a viewer connects.
    """
    if not turn.request.options.is_incognito:
        ACTIVE_TURNS.register(turn.request.turn_id, partial(_active_turn, turn))


def unregister_live(turn: Turn) -> None:
    ACTIVE_TURNS.unregister(turn.request.turn_id)


def _active_turn(turn: Turn) -> ActiveTurn:
    return ActiveTurn(**_header_fields(turn), calls=turn.record)


def _header_fields(turn: Turn) -> dict[str, Any]:
    """Return the fields of `TurnHeader`, which are known when a turn begins."""
    request = turn.request
    return {
        "turn_id": request.turn_id,
        "user_id": turn.user_id,
        "thread": request.options.thread,
        "agent": turn.agent.name,
        "experiment": turn.experiment,
        "origin": request.origin,
        "user_message": query_embedding.last_user_text(request.messages),
        "is_streamed": request.stream,
        "started_at": turn.started.at,
    }


def transcript_entries(ended: EndedTurn) -> list[NewMessage]:
    """Return what the turn adds to the transcript: the new messages and the reply."""
    turn, reply, outcome = ended.turn, ended.reply, ended.outcome
    entries = [_entry(turn, message) for message in turn.new]
    if not reply.has_output:
        return entries
    own_calls = frozenset(
        call.id
        for call in turn.record
        if isinstance(call, trace.TracedToolCall) and call.kind != "client"
    )
    messages = reply.exchange or (reply.message(),)
    *_, last = (message for message in messages if message.role == "assistant")
    for message in messages:
        entry = _entry(turn, message)
        if reply.exchange:
            entry.own_calls = own_calls
        if message is last:
            entry.counted_tokens = _reply_tokens(turn, reply, last)
            entry.finish_reason = (
                (reply.finish_reason or "") if outcome == "ok" else outcome
            )
            entry.request_fields = turn.request.stored_fields
        entries.append(entry)
    return entries


def _entry(turn: Turn, message: Message) -> NewMessage:
    return NewMessage(
        message,
        agent=turn.agent.name if message.role == "assistant" else "",
        importance=getattr(turn.memory.importance, message.role),
    )


def sent_conversation(
    ended: EndedTurn, entries: Sequence[NewMessage]
) -> SentConversation:
    """Return what the client sent and received, to find it among what is stored."""
    turn, exchange = ended.turn, ended.reply.exchange
    reply_rows = len(entries) - len(turn.new)
    reply = None
    if reply_rows:
        # The client sees one message, whatever was called before it.
        reply = ended.reply.message() if exchange else entries[-1].message
    return SentConversation(
        prompt.conversation(turn.request.messages),
        is_whole=turn.history_mode == "client",
        new_count=len(turn.new),
        to_entry=partial(_entry, turn),
        follows=turn.request.options.continues,
        reply=reply,
        reply_rows=reply_rows,
    )


def charge_calls(turn: Turn) -> Charge:
    """Set the cost of each model call; return the charge of the turn."""
    tokens, micro_usd, is_priced = 0, 0, True
    for call in trace.iter_model_calls(turn.record):
        if call.usage is None:
            continue
        tokens += call.usage.input_tokens + call.usage.output_tokens
        if call.cost_micro_usd is None:
            call.cost_micro_usd = call_costs.call_cost(
                turn.config,
                call.provider,
                call.model,
                call.usage,
                at=call.started_at,
            )
        if call.cost_micro_usd is None:
            is_priced = False
        else:
            micro_usd += call.cost_micro_usd
    return Charge(tokens, micro_usd, is_priced)


def served_by(turn: Turn) -> ServedBy:
    """Return the model that serves a turn, with its usage and cost so far."""
    charge = charge_calls(turn)
    last = _latest_model_call(turn)
    return ServedBy(
        "" if last is None else last.provider,
        "" if last is None else last.model,
        trace.count_attempts(turn.record),
        charge.micro_usd if charge.is_priced else None,
        trace.count_rescues(turn.record),
        None if turn.safety is None else turn.safety.summary(),
    )


def annotate_error(error: CoulisseError, turn: Turn) -> None:
    """Add the provider and the attempts so far to an error that ends the turn.

    They become headers of the response.
    """
    last = _latest_model_call(turn)
    if last is not None:
        error.provider = error.provider or last.provider
    error.attempts = trace.count_attempts(turn.record)


def _latest_model_call(turn: Turn) -> trace.ModelCall | None:
    """Return the agent's latest model call; None if a safety check replied instead."""
    calls = (c for c in reversed(turn.record) if isinstance(c, trace.ModelCall))
    return next(calls, None)


def build_record(
    turn: Turn, reply: Reply, outcome: Outcome, error: Exception | None
) -> TurnRecord:
    return TurnRecord(
        **_header_fields(turn),
        seconds=time.perf_counter() - turn.started.clock,
        outcome=outcome,
        finish_reason=reply.finish_reason or "",
        error=None if error is None else recorded_text(error),
        request_id=turn.request.request_id,
        token_id=turn.request.caller.token_id,
        cost_micro_usd=trace.total_cost(turn.record),
        usage=trace.total_usage(turn.record),
        recalled_fact_ids=[
            public_ids.format_fact_id(fact_id) for fact_id in turn.recalled_fact_ids
        ],
        calls=turn.record,
        diagnostics=turn.diagnostics,
    )


def client_tool_results(new: Sequence[Message]) -> dict[str, str]:
    """Return the results of the client's tools, by call id."""
    return {
        message.tool_call_id: message.text
        for message in new
        if message.tool_call_id is not None
    }


def _reply_tokens(turn: Turn, reply: Reply, message: Message) -> int:
    """Return the size of the reply in later prompts, without its reasoning."""
    usage = reply.usage
    if (
        usage is None
        or not usage.output_tokens
        # Some providers bill reasoning without a separate count.
        or (reply.reasoning and not usage.reasoning_tokens)
        # With a format or tools the count may be the sum of several rounds.
        or turn.request.format is not None
        or turn.tools
        or reply.exchange
    ):
        return token_estimates.estimate_message(message)
    return (
        usage.output_tokens - usage.reasoning_tokens + token_estimates.MESSAGE_OVERHEAD
    )
