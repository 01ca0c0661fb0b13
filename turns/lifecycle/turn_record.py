"""What is left of a turn that ended: messages, and a record of what it called."""

import time
from collections.abc import Sequence

from access.limits.usage_counters import Charge
from core import token_estimates, trace
from core.errors import CoulisseError, recorded
from core.events import Serving
from core.messages import Message
from core.reply import Reply
from memory.facts import public_ids
from memory.transcript.message_rows import Entry
from providers.pricing import call_costs
from telemetry.types import Outcome, Record
from turns.lifecycle import live_registration
from turns.turn import Turn


def entries(turn: Turn, reply: Reply, outcome: Outcome) -> list[Entry]:
    """Return what the turn adds to the transcript: the new messages and the reply."""
    importance = turn.memory.importance

    own = frozenset(
        call.id
        for call in turn.record
        if isinstance(call, trace.ToolCall) and call.kind != "client"
    )

    def entry(message: Message, count: int | None = None, **more: str) -> Entry:
        if message.role == "assistant":
            more["agent"] = turn.agent.name
        return Entry(
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


def charge(turn: Turn) -> Charge:
    """Put down what each call of a model cost; return what the turn is charged."""
    total, is_priced, used = 0, True, 0
    for call in trace.model_calls(turn.record):
        if call.usage is None:
            continue
        used += call.usage.input_tokens + call.usage.output_tokens
        if call.cost_micro_usd is None:
            call.cost_micro_usd = call_costs.cost(
                *(turn.config, call.provider, call.model, call.usage),
                at=call.started_at,
            )
        if call.cost_micro_usd is None:
            is_priced = False
        else:
            total += call.cost_micro_usd
    return Charge(used, total, is_priced)


def serving(turn: Turn) -> Serving:
    """Return who answers a turn, what it took and what it has cost until now."""
    charged = charge(turn)
    last = _last_call(turn)
    return Serving(
        last.provider,
        last.model,
        trace.attempts(turn.record),
        charged.micro_usd if charged.is_priced else None,
    )


def sign(error: CoulisseError, turn: Turn) -> None:
    """Put into an error that ends a turn whose it is, and what was tried until then."""
    error.provider = error.provider or _last_call(turn).provider
    error.attempts = trace.attempts(turn.record)


def _last_call(turn: Turn) -> trace.ModelCall:
    """Return the newest of the agent's own calls; there is one as soon as it runs."""
    return next(c for c in reversed(turn.record) if isinstance(c, trace.ModelCall))


def record(
    turn: Turn, reply: Reply, outcome: Outcome, error: Exception | None
) -> Record:
    """Return what is put down of the turn."""
    return Record(
        **live_registration.beginning(turn),
        seconds=time.perf_counter() - turn.started.clock,
        outcome=outcome,
        finish_reason=reply.finish_reason or "",
        error=None if error is None else recorded(error),
        request_id=turn.request.request_id,
        token_id=turn.request.caller.token_id,
        cost_micro_usd=trace.cost(turn.record),
        usage=trace.usage(turn.record),
        recalled_fact_ids=[public_ids.write(fact_id) for fact_id in turn.recalled_fact_ids],
        calls=turn.record,
    )


def results(new: Sequence[Message]) -> dict[str, str]:
    """Return what the client's tools answered, by the ids of the calls."""
    return {
        message.tool_call_id: message.text
        for message in new
        if message.tool_call_id is not None
    }


def _reply_tokens(turn: Turn, reply: Reply, message: Message) -> int:
    """Return what the reply will cost in later prompts, without its thinking."""
    count = reply.usage
    if (
        count is None
        or not count.output_tokens
        # Some providers bill thinking without counting it apart.
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
