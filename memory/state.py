"""Whether what is stored fits what is configured, for operators."""

from collections.abc import Iterator

from django.db import DatabaseError
from django.db.models import Q

from memory.models import Lesson, Passage
from memory.plan import Plan
from providers import embedders

MANY = 10_000
"""More are not counted: it would take time for a figure nobody needs exactly."""


def concerns(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what an operator should know of, each with the id of its kind.

    Says nothing of a database that cannot be read: others do.
    """
    warning = embedders.warning(plan.embedder)
    if warning is not None:
        yield "coulisse.W401", f"{warning}."
    learner = plan.learner
    if learner and learner.provider.kind == "local" and not learner.provider.base_url:
        yield (
            "coulisse.W404",
            f"'{learner.model}' is too small to learn facts from what users say. Set "
            "learn_from to a larger model.",
        )
    try:
        foreign, failed = _foreign(plan.embedder.id), _failed()
    except DatabaseError:
        return
    if foreign:
        yield (
            "coulisse.W402",
            f"{_number(foreign)} texts in memory have vectors of another embedder than "
            f"{plan.embedder.id}: only their words are searched. Run `manage.py "
            "reindex`.",
        )
    if failed:
        yield (
            "coulisse.W403",
            f"{_number(failed)} turns could not be learnt from: see `manage.py lessons "
            "--failed`.",
        )


def _foreign(embedder: str) -> int:
    others = Q(embedder__lt=embedder) | Q(embedder__gt=embedder)
    rows = Passage.objects.filter(others).exclude(embedder="")
    return rows.order_by()[:MANY].count()


def _failed() -> int:
    failed = Lesson.objects.filter(state="failed").order_by()
    return failed[:MANY].count()


def _number(count: int) -> str:
    return f"{MANY:,} or more" if count >= MANY else f"{count:,}"
