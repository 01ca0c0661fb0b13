"""Runs for the terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from core.text.sanitization import escape_and_truncate_line, escape_invisible
from smoke.models import SmokeMessage, SmokeRun
from smoke.reports import batches
from telemetry.presentation import terminal

SHOWN = 8
"""Characters of a run's id; `smoke show` accepts them."""
WIDTH = 160
INDENT = "    "
END_DESCRIPTIONS = {
    SmokeRun.Stop.PERSONA: "the persona sent the stop marker",
    SmokeRun.Stop.AGENT: "the agent sent the stop marker",
    SmokeRun.Stop.MAX_TURNS: "ended by max_turns",
    SmokeRun.Stop.SILENCE: "one side sent an empty message",
    SmokeRun.Stop.TIMEOUT: "took too long",
    SmokeRun.Stop.ERROR: "aborted by an error",
}


def short_id(run: SmokeRun) -> str:
    return run.id.hex[:SHOWN]


def run_line(run: SmokeRun) -> str:
    outcome = run.outcome
    label = outcome if outcome in ("passed", "failed") else str(run.state)
    parts = [
        short_id(run),
        f"{run.created_at:%Y-%m-%d %H:%M:%S}",
        f"{label:<9}",
        escape_invisible(run.test),
        f"with {escape_invisible(run.agent or run.target)}",
        count_turns(run.turns),
        *mean_lines(run),
        terminal.format_cost(run.total_micro_usd),
    ]
    return "  ".join(parts)


def launch_line(runs: Sequence[SmokeRun]) -> str:
    first = runs[0]
    count = "1 conversation" if len(runs) == 1 else f"{len(runs)} conversations"
    names = " ".join(map(short_id, runs))
    return (
        f"{escape_invisible(first.test)}: {count} with "
        f"{escape_invisible(first.target)}: {names}"
    )


def count_turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"


def mean_lines(run: SmokeRun) -> list[str]:
    return [f"{each} {found['mean']:.2f}" for each, found in run.scores.items()]


def message_line(message: SmokeMessage) -> str:
    """Return a message in one line of limited length."""
    names = ", ".join(escape_invisible(each) for each in tool_names(message.calls))
    suffix = f"  [{names}]" if names else ""
    text = escape_and_truncate_line(message.text, WIDTH)
    return f"{message.speaker:<9}  {text}{suffix}"


def tool_names(calls: Sequence[dict[str, Any]]) -> list[str]:
    """Return the tools that a message called itself, in order."""
    return [call["name"] for call in calls if call["object"] == "tool_call"]


def ending_lines(run: SmokeRun) -> Iterator[str]:
    """Yield the end of a run: one line, and one for each problem."""
    parts = [verdict_text(run), count_turns(run.turns)]
    if run.stopped_because and not run.error:
        parts.append(END_DESCRIPTIONS[SmokeRun.Stop(run.stopped_because)])
    yield ", ".join(
        [*parts, *mean_lines(run), terminal.format_cost(run.total_micro_usd)]
    )
    if run.error:
        yield f"{INDENT}- {escape_invisible(run.error)}"
    for failure in run.failures:
        yield f"{INDENT}- {escape_invisible(failure)}"
    if not run.failures:
        for judge, reason in run.unscored.items():
            yield (
                f"{INDENT}judge '{escape_invisible(judge)}' has not scored every "
                f"reply: {escape_invisible(reason)}"
            )


def verdict_text(run: SmokeRun) -> str:
    """Return the outcome of a run, colored by severity."""
    if run.verdict == SmokeRun.Verdict.PASSED:
        return "passed"
    if run.verdict == SmokeRun.Verdict.FAILED:
        return "FAILED"
    return "ABORTED" if run.state == SmokeRun.State.FAILED else str(run.state)


def summary_lines(runs: Sequence[SmokeRun]) -> Iterator[str]:
    counts = batches.count_outcomes(runs)
    parts = [f"{counts['passed']} passed", f"{counts['failed']} failed"]
    if counts["aborted"]:
        parts.append(f"{counts['aborted']} aborted")
    if counts["open"]:
        parts.append(f"{counts['open']} unfinished")
    cost = terminal.format_cost(batches.total_cost(runs))
    yield f"{escape_invisible(runs[0].test)}: {', '.join(parts)}, {cost}"
    for agent, named in batches.mean_scores(runs).items():
        for criterion, found in named.items():
            yield (
                f"{INDENT}{escape_invisible(agent)}  {criterion}  mean "
                f"{found['mean']:.2f} of {found['count']}"
            )


def interruption_line(runs: Sequence[SmokeRun]) -> str:
    if not runs:
        return "interrupted: no conversation was launched"
    count = sum(run.state == SmokeRun.State.CANCELLED for run in runs)
    return (
        f"interrupted: {count} of {len(runs)} conversations cancelled; `smoke list "
        "--runs` shows them"
    )


def transcript_lines(run: SmokeRun) -> Iterator[str]:
    yield run_line(run)
    yield f"{INDENT}run {run.id}, number {run.repetition} of batch {run.batch}"
    yield f"{INDENT}user id: {run.user_id}"
    for each in run.messages.order_by("position"):
        yield ""
        yield from _message_lines(each)
    yield ""
    yield from ending_lines(run)


def _message_lines(message: SmokeMessage) -> Iterator[str]:
    sender = (
        message.speaker
        if not message.agent
        else f"{message.speaker} ({escape_invisible(message.agent)})"
    )
    cost = terminal.format_cost(message.cost_micro_usd)
    yield f"{sender}  {message.seconds:.2f} s  {cost}"
    for text in message.text.splitlines():
        yield f"{INDENT}{escape_invisible(text)}"
    yield from _call_lines(message.calls, INDENT)
    if message.turn_id is not None:
        yield f"{INDENT}turn {message.turn_id}"


def _call_lines(calls: Sequence[dict[str, Any]], indent: str) -> Iterator[str]:
    for call in calls:
        if call["object"] != "tool_call":
            continue
        yield (
            f"{indent}> {escape_invisible(call['name'])} "
            f"{escape_and_truncate_line(call['arguments'], WIDTH)}"
        )
        yield from _call_lines(call["calls"], f"{indent}{INDENT}")
        output = call["result"] if call["error"] is None else f"error: {call['error']}"
        if output:
            yield f"{indent}< {escape_and_truncate_line(output, WIDTH)}"
