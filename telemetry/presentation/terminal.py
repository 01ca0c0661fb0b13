"""Turns for the terminal: one line each, or the tree of one."""

from collections.abc import Iterator, Sequence

from core import money
from core.events import Usage
from core.text.sanitization import escape_and_truncate_line
from core.trace import Attempt, Call, ModelCall, TracedToolCall
from telemetry.models import Turn
from telemetry.presentation import diagnostics_text

MAX_TEXT_LENGTH = 160
"""Maximum characters of a text, which is truncated to one line."""
INDENT = "    "


def turn_line(turn: Turn) -> str:
    """Return a turn in one line: agent, outcome, duration, cost, message."""
    calls = f"{turn.model_calls} model, {turn.tool_calls} tools"
    text = _truncate(turn.error if turn.outcome == "error" else turn.user_message, 60)
    return f"{_header_line(turn)}  {calls}  {text}".rstrip()


def turn_tree(record: Turn) -> Iterator[str]:
    """Yield the lines of a turn and its calls, each indented below its caller."""
    yield _header_line(record)
    yield f"{INDENT}user id: {record.user_id}"
    if record.thread:
        yield f"{INDENT}thread: {_truncate(record.thread)}"
    yield from _text_lines(
        INDENT, ("user", record.user_message), ("error", record.error)
    )
    yield from _diagnostics_lines(record)
    yield from _call_lines(record.calls, INDENT)


def _diagnostics_lines(turn: Turn) -> Iterator[str]:
    found = turn.diagnostics
    # Shadow runs have the prompt of another turn.
    if found is None or found.prepare_seconds is None:
        return
    yield f"{INDENT}recall: {_truncate(diagnostics_text.recall(found))}"
    yield f"{INDENT}prompt: {diagnostics_text.prompt(found)}"
    yield f"{INDENT}times: {diagnostics_text.phases(found)}"


def _header_line(turn: Turn) -> str:
    outcome: str = turn.outcome
    if turn.finish_reason and turn.finish_reason != turn.outcome:
        outcome += f" ({turn.finish_reason})"
    return "  ".join(
        [
            str(turn.turn_id),
            f"{turn.started_at:%Y-%m-%d %H:%M:%S}",
            _agent_label(turn),
            outcome,
            _format_seconds(turn.seconds),
            _format_tokens(turn.usage),
            format_cost(turn.cost_micro_usd),
        ]
    )


def _agent_label(turn: Turn) -> str:
    """Return the agent, its experiment, and the origin unless it is a client."""
    label = f"{turn.agent} of {turn.experiment}" if turn.experiment else turn.agent
    return _truncate(label if turn.origin == "chat" else f"{label} [{turn.origin}]")


def _call_lines(calls: Sequence[Call], indent: str) -> Iterator[str]:
    for call in calls:
        if isinstance(call, ModelCall):
            yield from _model_call_lines(call, indent)
        else:
            yield from _tool_call_lines(call, indent)


def _model_call_lines(call: ModelCall, indent: str) -> Iterator[str]:
    parts = [_truncate(f"{call.provider}/{call.model}"), _format_seconds(call.seconds)]
    if call.usage is not None:
        parts += [_format_tokens(call.usage), format_cost(call.cost_micro_usd)]
    if call.finish_reason:
        parts.append(_truncate(call.finish_reason))
    yield indent + "  ".join(parts)
    inner = indent + INDENT
    yield from _attempt_lines(call.attempts, inner)
    yield from _text_lines(inner, ("error", call.error))


def _attempt_lines(attempts: Sequence[Attempt], indent: str) -> Iterator[str]:
    for number, attempt in enumerate(attempts, 1):
        endpoint = f" at {_truncate(attempt.endpoint)}" if attempt.endpoint else ""
        seconds = _format_seconds(attempt.seconds)
        result = "ok" if attempt.error is None else _truncate(attempt.error)
        yield f"{indent}attempt {number}{endpoint}  {seconds}  {result}"


def _tool_call_lines(call: TracedToolCall, indent: str) -> Iterator[str]:
    source = f"{call.kind} {call.target}".strip()
    label = _truncate(f"{call.name} ({source})")
    yield f"{indent}{label}  {_format_seconds(call.seconds)}"
    inner = indent + INDENT
    yield from _text_lines(inner, ("arguments", call.arguments))
    yield from _call_lines(call.calls, inner)
    yield from _text_lines(inner, ("result", call.result), ("error", call.error))


def _text_lines(indent: str, *texts: tuple[str, str | None]) -> Iterator[str]:
    for name, text in texts:
        if text:
            yield f"{indent}{name}: {_truncate(text)}"


def _truncate(text: str | None, width: int = MAX_TEXT_LENGTH) -> str:
    return escape_and_truncate_line(text or "", width)


def _format_seconds(seconds: float | None) -> str:
    return "interrupted" if seconds is None else f"{seconds:.2f} s"


def _format_tokens(usage: Usage) -> str:
    return f"{usage.input_tokens} in / {usage.output_tokens} out"


def format_cost(micro_usd: int | None) -> str:
    """Return a cost for the terminal; unknown costs appear as such."""
    return "cost unknown" if micro_usd is None else f"${money.decimal_usd(micro_usd)}"
