"""Results of judge tasks: counts, failures and costs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from judges.runs import judge_queue
from tasks.models import Task
from tasks.queue import lifecycle

MAX_FAILURES_SHOWN = 5
"""Maximum failures listed per judge, newest first."""


@dataclass(frozen=True, slots=True)
class JudgingResult:
    """The result of one task."""

    cost_micro_usd: int | None = 0
    """None if no price is known."""
    calls: int = 0
    skipped: str = ""
    """The reason if there was nothing to judge."""


@dataclass(slots=True)
class JudgingTally:
    """The tasks of one judge."""

    judge: str
    queued: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """Counts by reason."""
    calls: int = 0
    micro_usd: int = 0
    unpriced: int = 0
    """Tasks whose cost is unknown."""
    failures: list[Task] = field(default_factory=list)
    """The newest failed tasks."""

    @property
    def total(self) -> int:
        """The number of replies that the judge sampled."""
        skipped = sum(self.skipped.values())
        ended = self.done + self.failed + self.cancelled + skipped
        return self.queued + self.running + ended


def read_result(task: Task) -> JudgingResult:
    """Return the result in a task's row."""
    try:
        receipt: dict[str, Any] = orjson.loads(task.result)
    except orjson.JSONDecodeError:
        return JudgingResult()
    return JudgingResult(
        receipt.get("cost_micro_usd", 0),
        receipt.get("calls", 0),
        receipt.get("skipped", ""),
    )


def list_tallies(
    *,
    judge: str | None = None,
    agent: str | None = None,
    since: datetime | None = None,
) -> list[JudgingTally]:
    """Return the results of judge tasks, by judge name."""
    tallies: dict[str, JudgingTally] = {}
    for task in _iterate_tasks(judge, agent, since):
        name = judge_queue.judge_of_origin(task.origin)
        _count_task(tallies.setdefault(name, JudgingTally(name)), task)
    return [tallies[name] for name in sorted(tallies)]


def _iterate_tasks(
    judge: str | None, agent: str | None, since: datetime | None
) -> Iterator[Task]:
    tasks = Task.objects.filter(kind=judge_queue.KIND)
    if judge is not None:
        tasks = tasks.filter(origin=judge_queue.task_origin(judge))
    if agent is not None:
        tasks = tasks.filter(agent=agent)
    if since is not None:
        tasks = tasks.filter(created_at__gte=since)
    return tasks.order_by("-created_at").defer("prompt", "payload").iterator()


def _count_task(tally: JudgingTally, task: Task) -> None:
    result = read_result(task)
    tally.calls += result.calls
    if result.cost_micro_usd is None:
        tally.unpriced += 1
    else:
        tally.micro_usd += result.cost_micro_usd
    if task.state == Task.State.ERRORED:
        tally.failed += 1
        if len(tally.failures) < MAX_FAILURES_SHOWN:
            tally.failures.append(task)
    elif result.skipped:
        tally.skipped[result.skipped] = tally.skipped.get(result.skipped, 0) + 1
    elif task.state in (*lifecycle.OPEN, Task.State.DONE, Task.State.CANCELLED):
        setattr(tally, task.state, getattr(tally, task.state) + 1)
