"""Whether what is stored fits what is configured, for operators."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import DatabaseError
from django.db.models import Q, QuerySet
from django.utils import timezone

from memory.memory_settings import Plan
from memory.models import Lesson, Passage
from providers.embeddings import embedders

MINUTE = timedelta(minutes=1)
LONG = 10 * MINUTE
"""A turn that waits longer for a worker waits for none."""
MANY = 10_000
"""More are not counted: it would take time for a figure nobody needs exactly."""


def concerns(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what an operator should know of, each with the id of its kind.

    Says nothing of a database that cannot be read: others do.
    """
    yield from _of_choice(plan)
    # Read whole before the first is told, for the database may go meanwhile.
    with suppress(DatabaseError):
        yield from list(_of_what_is_stored(plan))


def _of_choice(plan: Plan) -> Iterator[tuple[str, str]]:
    warning = embedders.warning(plan.embedder)
    if warning is not None:
        yield "coulisse.W401", f"{warning}."
    learner = plan.extraction_model
    if learner and learner.provider.kind == "local" and not learner.provider.base_url:
        yield (
            "coulisse.W404",
            f"'{learner.model}' is too small to learn facts from what users say. Set "
            "learn_from to a larger model.",
        )


def _of_what_is_stored(plan: Plan) -> Iterator[tuple[str, str]]:
    if foreign := _foreign(plan.embedder.id):
        yield (
            "coulisse.W402",
            f"{_texts(foreign)} in memory with vectors of another embedder than "
            f"{plan.embedder.id}: only their words are searched. Run `manage.py "
            "reindex`.",
        )
    if failed := _count(Lesson.objects.filter(state="failed")):
        yield (
            "coulisse.W403",
            f"{_turns(failed)} could not be learnt from: see `manage.py lessons "
            "--failed`.",
        )
    long_ago = timezone.now() - LONG
    waiting = Lesson.objects.filter(state="queued", due_at__lt=long_ago)
    if late := _count(waiting):
        yield (
            "coulisse.W405",
            f"{_turns(late)} should have been learnt from more than "
            f"{LONG // MINUTE} minutes ago: does a worker run?",
        )


def _foreign(embedder: str) -> int:
    others = Q(embedder__lt=embedder) | Q(embedder__gt=embedder)
    return _count(Passage.objects.filter(others).exclude(embedder=""))


def _count(rows: QuerySet[Any]) -> int:
    return rows.order_by()[:MANY].count()


def _texts(count: int) -> str:
    return "There is 1 text" if count == 1 else f"There are {_number(count)} texts"


def _turns(count: int) -> str:
    return f"{_number(count)} turn{'' if count == 1 else 's'}"


def _number(count: int) -> str:
    return f"{MANY:,} or more" if count >= MANY else f"{count:,}"
