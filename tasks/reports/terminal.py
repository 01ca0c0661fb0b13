"""Terminal output of tasks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MAX_LINE_LENGTH = 60
"""Maximum characters of a prompt or an error in a line."""


def task_line(task: Mapping[str, Any]) -> str:
    """Return one line for a task, from its serialized form."""
    return "  ".join(
        (
            task["id"],
            _format_minute(task["created_at"]),
            f"{task['state']:<9}",
            f"{task['kind']:<6}",
            task["agent"],
            _truncate(task["error"] or task["prompt"]),
        )
    ).rstrip()


def task_detail(task: Mapping[str, Any]) -> Iterator[str]:
    """Yield all details of a task, one per line."""
    for name, value in task.items():
        if value not in (None, "") and name != "object":
            yield f"{name.replace('_', ' ')}: {value}"


def count_lines(rows: Sequence[tuple[str, str, int]]) -> Iterator[str]:
    """Yield one line per kind with the number of tasks in each state."""
    kinds: dict[str, list[str]] = {}
    for kind, state, count in rows:
        kinds.setdefault(kind, []).append(f"{count} {state}")
    for kind, states in kinds.items():
        yield f"{kind}: {', '.join(states)}"


def error_lines(rows: Sequence[tuple[str, str, int]]) -> Iterator[str]:
    """Yield one line per error of errored tasks."""
    for kind, error, count in rows:
        yield f"    {count} {kind}: {_truncate(error)}"


def _format_minute(instant: str) -> str:
    return instant[:16].replace("T", " ")


def _truncate(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE_LENGTH else f"{line[: MAX_LINE_LENGTH - 1]}…"
