"""Turns for the terminal: a line each, or the tree of one."""

import re
from collections.abc import Iterator, Sequence

from core import money
from core.events import Usage
from core.trace import Attempt, Call, ModelCall, ToolCall
from telemetry.types import Listed, Outline, Record

WIDTH = 160
"""Characters of a text, which is cut to one line."""
INDENT = "    "
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def line(turn: Listed) -> str:
    """Return a turn in a line: who, how, how long, how much, about what."""
    calls = f"{turn.model_calls}+{turn.tool_calls} calls"
    said = _cut(turn.error if turn.outcome == "error" else turn.user_message, 60)
    return f"{_head(turn)}  {calls}  {said}".rstrip()


def tree(record: Record) -> Iterator[str]:
    """Yield the lines of a turn and of all it called, each within its caller."""
    yield _head(record)
    yield f"{INDENT}user id: {record.user_id}"
    if record.thread:
        yield f"{INDENT}thread: {_cut(record.thread)}"
    yield from _texts(INDENT, ("user", record.user_message), ("error", record.error))
    yield from _calls(record.calls, INDENT)


def _head(turn: Outline) -> str:
    ended: str = turn.outcome
    if turn.finish_reason and turn.finish_reason != turn.outcome:
        ended += f" ({turn.finish_reason})"
    return "  ".join(
        [
            *(str(turn.turn_id), f"{turn.started_at:%Y-%m-%d %H:%M:%S}"),
            *(_agent(turn), ended, _seconds(turn.seconds), _tokens(turn.usage)),
            cost(turn.cost_micro_usd),
        ]
    )


def _agent(turn: Outline) -> str:
    """Return who answered, what chose them, and what it was for if for no client."""
    told = f"{turn.agent} of {turn.experiment}" if turn.experiment else turn.agent
    return _cut(told if turn.origin == "chat" else f"{told} [{turn.origin}]")


def _calls(calls: Sequence[Call], indent: str) -> Iterator[str]:
    for call in calls:
        if isinstance(call, ModelCall):
            yield from _model_call(call, indent)
        else:
            yield from _tool_call(call, indent)


def _model_call(call: ModelCall, indent: str) -> Iterator[str]:
    told = [_cut(f"{call.provider}/{call.model}"), _seconds(call.seconds)]
    if call.usage is not None:
        told += [_tokens(call.usage), cost(call.cost_micro_usd)]
    if call.finish_reason:
        told.append(_cut(call.finish_reason))
    yield indent + "  ".join(told)
    inner = indent + INDENT
    yield from _attempts(call.attempts, inner)
    yield from _texts(inner, ("error", call.error))


def _attempts(attempts: Sequence[Attempt], indent: str) -> Iterator[str]:
    for number, attempt in enumerate(attempts, 1):
        at = f" at {_cut(attempt.endpoint)}" if attempt.endpoint else ""
        came = "answered" if attempt.error is None else _cut(attempt.error)
        yield f"{indent}attempt {number}{at}  {_seconds(attempt.seconds)}  {came}"


def _tool_call(call: ToolCall, indent: str) -> Iterator[str]:
    whose = f"{call.kind} {call.target}".strip()
    yield indent + _cut(f"{call.name} ({whose})") + f"  {_seconds(call.seconds)}"
    inner = indent + INDENT
    yield from _texts(inner, ("arguments", call.arguments))
    yield from _calls(call.calls, inner)
    yield from _texts(inner, ("result", call.result), ("error", call.error))


def _texts(indent: str, *named: tuple[str, str | None]) -> Iterator[str]:
    for name, text in named:
        if text:
            yield f"{indent}{name}: {_cut(text)}"


def _cut(text: str | None, width: int = WIDTH) -> str:
    """Return a text as one line that says nothing to the terminal itself."""
    found = UNPRINTABLE.sub(" ", (text or "")[: 2 * width])
    flat = " ".join(found.split())
    is_cut = len(flat) > width or len(text or "") > 2 * width
    return f"{flat[:width]}…" if is_cut else flat


def _seconds(seconds: float | None) -> str:
    return "broken off" if seconds is None else f"{seconds:.2f} s"


def _tokens(usage: Usage) -> str:
    return f"{usage.input_tokens} + {usage.output_tokens} tokens"


def cost(micro_usd: int | None) -> str:
    """Return a sum for the terminal, where what is not known says so."""
    return "cost unknown" if micro_usd is None else f"${money.usd(micro_usd)}"
