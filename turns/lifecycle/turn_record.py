"""What is stored of a turn: its messages, and a record of its calls."""

import time
from collections.abc import Sequence

from access.limits.usage_counters import Charge
from core import token_estimates, trace
from core.errors import CoulisseError, recorded_text
from core.events import ServedBy
from core.messages import Message
from core.reply import Reply
from memory.facts import public_ids
from memory.transcript.message_rows import NewMessage
from providers.pricing import call_costs
from telemetry.types import Outcome, TurnRecord
from turns.lifecycle import live_registration
from turns.turn import Turn


def transcript_entries(turn: Turn, reply: Reply, outcome: Outcome) -> list[NewMessage]:
    """Return what the turn adds to the transcript: the new messages and the reply."""
    importance = turn.memory.importance

    own = frozenset(
        call.id
        for call in turn.record
        if isinstance(call, trace.TracedToolCall) and call.kind != "client"
    )

    def entry(message: Message, count: int | None = None, **more: str) -> NewMessage:
        if message.role == "assistant":
            more["agent"] = turn.agent.name
        return NewMessage(
            message,
            token_estimates.estimate_message(message) if count is None else count,
            importance=getattr(importance, message.role),
            own_calls=own if reply.exchange else frozenset(),
            **more,
        )

    added = [entry(message) for message in turn.new]
    if reply.has_output:
        said = reply.exchange or (reply.message(),)
        *_, last = (message for message in said if message.role == "assistant")
        how = (reply.finish_reason or "") if outcome == "ok" else outcome
        added += [
            entry(message, _reply_tokens(turn, reply, last), finish_reason=how)
            if message is last
            else entry(message)
            for message in said
        ]
    return added


def charge_calls(turn: Turn) -> Charge:
    """Set the cost of each model call; return the charge of the turn."""
    total, is_priced, used = 0, True, 0
    for call in trace.iter_model_calls(turn.record):
        if call.usage is None:
            continue
        used += call.usage.input_tokens + call.usage.output_tokens
        if call.cost_micro_usd is None:
            call.cost_micro_usd = call_costs.call_cost(
                *(turn.config, call.provider, call.model, call.usage),
                at=call.started_at,
            )
        if call.cost_micro_usd is None:
            is_priced = False
        else:
            total += call.cost_micro_usd
    return Charge(used, total, is_priced)


def served_by(turn: Turn) -> ServedBy:
    """Return the model that serves a turn, with its usage and cost so far."""
    charged = charge_calls(turn)
    last = _latest_model_call(turn)
    return ServedBy(
        last.provider,
        last.model,
        trace.count_attempts(turn.record),
        charged.micro_usd if charged.is_priced else None,
    )


def annotate_error(error: CoulisseError, turn: Turn) -> None:
    """Add the turn's ids and its attempts so far to an error that ends it."""
    error.provider = error.provider or _latest_model_call(turn).provider
    error.attempts = trace.count_attempts(turn.record)


def _latest_model_call(turn: Turn) -> trace.ModelCall:
    """Return the agent's latest model call. A running turn has at least one."""
    return next(c for c in reversed(turn.record) if isinstance(c, trace.ModelCall))


def build_record(
    turn: Turn, reply: Reply, outcome: Outcome, error: Exception | None
) -> TurnRecord:
    """Return the record of the turn."""
    return TurnRecord(
        **live_registration.initial_fields(turn),
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
    count = reply.usage
    if (
        count is None
        or not count.output_tokens
        # Some providers bill reasoning without a separate count.
        or (reply.reasoning and not count.reasoning_tokens)
        # With a format or tools the count may be the sum of several rounds.
        or turn.request.format is not None
        or turn.tools
        or reply.exchange
    ):
        return token_estimates.estimate_message(message)
    return (
        count.output_tokens - count.reasoning_tokens + token_estimates.MESSAGE_OVERHEAD
    )
