"""Runs for the terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from core.text.sanitization import visible
from smoke.models import Line, Run
from smoke.reports import serializers
from telemetry.presentation import terminal

SHOWN = 8
"""Characters of a run's id; `smoke show` takes them."""
WIDTH = 160
INDENT = "    "
ENDS = {
    Run.Stop.PERSONA: "the persona said the stop marker",
    Run.Stop.AGENT: "the agent said the stop marker",
    Run.Stop.MAX_TURNS: "ended by max_turns",
    Run.Stop.SILENCE: "one side said nothing",
    Run.Stop.TIMEOUT: "took too long",
    Run.Stop.ERROR: "broke off",
}


def name(run: Run) -> str:
    """Return a run's id as people take it."""
    return run.id.hex[:SHOWN]


def line(run: Run) -> str:
    """Return a run in a line."""
    word = serializers.outcome(run)
    told = word if word in ("passed", "failed") else str(run.state)
    parts = [
        name(run),
        f"{run.created_at:%Y-%m-%d %H:%M:%S}",
        f"{told:<9}",
        visible(run.test),
        f"with {visible(run.agent or run.target)}",
        turns(run.turns),
        *means(run),
        terminal.cost(serializers.cost([run])),
    ]
    return "  ".join(parts)


def launched(runs: Sequence[Run]) -> str:
    """Return what begins, in a line."""
    first = runs[0]
    count = "1 conversation" if len(runs) == 1 else f"{len(runs)} conversations"
    names = " ".join(map(name, runs))
    return f"{visible(first.test)}: {count} with {visible(first.target)}: {names}"


def turns(count: int) -> str:
    """Return how many there are in words."""
    return "1 turn" if count == 1 else f"{count} turns"


def means(run: Run) -> list[str]:
    """Return a run's scores."""
    return [f"{each} {found['mean']:.2f}" for each, found in run.scores.items()]


def said(line: Line) -> str:
    """Return what was said in one line that is not too long."""
    called = ", ".join(visible(each) for each in tools(line.calls))
    more = f"  [{called}]" if called else ""
    return f"{line.speaker:<9}  {_cut(line.text)}{more}"


def tools(calls: Sequence[dict[str, Any]]) -> list[str]:
    """Return what a line called itself, in order."""
    return [call["name"] for call in calls if call["object"] == "tool_call"]


def ending(run: Run) -> Iterator[str]:
    """Yield how a run ended: in a line, and one for each thing that is wrong."""
    parts = [verdict(run), turns(run.turns)]
    if run.stopped_because and not run.error:
        parts.append(ENDS[Run.Stop(run.stopped_because)])
    yield ", ".join([*parts, *means(run), terminal.cost(serializers.cost([run]))])
    if run.error:
        yield f"{INDENT}- {visible(run.error)}"
    for failure in run.failures:
        yield f"{INDENT}- {visible(failure)}"
    if not run.failures:
        for judge, why in run.unscored.items():
            yield f"{INDENT}judge '{visible(judge)}' has not scored all: {visible(why)}"


def verdict(run: Run) -> str:
    """Return what became of a run, as loud as it is bad."""
    if run.verdict == Run.Verdict.PASSED:
        return "passed"
    if run.verdict == Run.Verdict.FAILED:
        return "FAILED"
    return "BROKE OFF" if run.state == Run.State.FAILED else str(run.state)


def summary(runs: Sequence[Run]) -> Iterator[str]:
    """Yield what a batch came to."""
    counts = serializers.counts(runs)
    told = [f"{counts['passed']} passed", f"{counts['failed']} failed"]
    if counts["broken"]:
        told.append(f"{counts['broken']} broke off")
    if counts["open"]:
        told.append(f"{counts['open']} not over")
    cost = terminal.cost(serializers.cost(runs))
    yield f"{visible(runs[0].test)}: {', '.join(told)}, {cost}"
    for agent, named in serializers.scores(runs).items():
        for criterion, found in named.items():
            yield (
                f"{INDENT}{visible(agent)}  {criterion}  {found['mean']:.2f} in the "
                f"mean of {found['count']}"
            )


def interrupted(runs: Sequence[Run]) -> str:
    """Return what an interruption leaves."""
    if not runs:
        return "interrupted: nothing was launched"
    count = sum(run.state == Run.State.CANCELLED for run in runs)
    return (
        f"interrupted: {count} of {len(runs)} conversations cancelled; `smoke list "
        "--runs` shows them"
    )


def transcript(run: Run) -> Iterator[str]:
    """Yield a run with all that was said."""
    yield line(run)
    yield f"{INDENT}run {run.id}, number {run.repetition} of its batch {run.batch}"
    yield f"{INDENT}user id: {run.user_id}"
    for each in run.lines.order_by("position"):
        yield ""
        yield from _whole(each)
    yield ""
    yield from ending(run)


def _whole(line: Line) -> Iterator[str]:
    who = line.speaker if not line.agent else f"{line.speaker} ({visible(line.agent)})"
    yield f"{who}  {line.seconds:.2f} s  {terminal.cost(line.cost_micro_usd)}"
    for text in line.text.splitlines():
        yield f"{INDENT}{visible(text)}"
    yield from _calls(line.calls, INDENT)
    if line.turn_id is not None:
        yield f"{INDENT}turn {line.turn_id}"


def _calls(calls: Sequence[dict[str, Any]], indent: str) -> Iterator[str]:
    for call in calls:
        if call["object"] != "tool_call":
            continue
        yield f"{indent}> {visible(call['name'])} {_cut(call['arguments'])}"
        yield from _calls(call["calls"], f"{indent}{INDENT}")
        came = call["result"] if call["error"] is None else f"error: {call['error']}"
        if came:
            yield f"{indent}< {_cut(came)}"


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return visible(flat[:WIDTH]) + ("…" if len(flat) > WIDTH else "")
