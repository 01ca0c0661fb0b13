"""Work that failed of late, added up for whoever has to know."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, Count, F, Max, When

from tasks.judge_runs import judge_queue
from tasks.models import Task


@dataclass(frozen=True, slots=True)
class Trouble:
    """Tasks of one sort that failed."""

    kind: str
    name: str
    """The judge; of other work the agent."""
    count: int
    last_at: datetime
    """When the newest of them was asked for."""


def since(at: datetime) -> list[Trouble]:
    """Return what failed of the work asked for since then, the most first."""
    failed = Task.objects.filter(created_at__gte=at, state=Task.State.ERRORED)
    who = Case(When(kind=judge_queue.KIND, then=F("origin")), default=F("agent"))
    rows = failed.values("kind", who=who).annotate(
        count=Count("id"), last_at=Max("created_at")
    )
    return [
        Trouble(kind, judge_queue.judge(name), count, last_at)
        for kind, name, count, last_at in rows.order_by("-count", "who").values_list(
            "kind", "who", "count", "last_at"
        )
    ]
