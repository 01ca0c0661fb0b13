"""Queries on runs."""

import re
import uuid
from collections.abc import Collection, Mapping
from datetime import datetime

from django.db.models import Max, Q

from core.ids import UserId
from smoke.errors import RunUnknown
from smoke.models import SmokeRun

Cursor = tuple[datetime, uuid.UUID]
"""Position of a page of batches: launch time and id of the last one."""

ID_PREFIX = re.compile(r"[0-9a-f]{4,32}")
"""The beginning of an id, without hyphens."""


def newest_runs(*, test: str | None = None, limit: int) -> list[SmokeRun]:
    """Return runs, newest first."""
    found = SmokeRun.objects.order_by("-created_at", "repetition")
    if test is not None:
        found = found.filter(test=test)
    return list(found[:limit])


def load_batches(ids: Collection[uuid.UUID]) -> list[list[SmokeRun]]:
    """Return batches in the order they were launched, each with its runs."""
    found: dict[uuid.UUID, list[SmokeRun]] = {}
    ordered = SmokeRun.objects.filter(batch__in=ids).order_by(
        "created_at", "repetition"
    )
    for run in ordered.defer("settings"):
        found.setdefault(run.batch, []).append(run)
    return list(found.values())


def page_batches(
    *, test: str | None = None, after: Cursor | None = None, limit: int
) -> tuple[list[list[SmokeRun]], bool]:
    """Return batches with their runs, newest first, and whether there are more."""
    found = SmokeRun.objects.order_by("-created_at", "batch")
    if test is not None:
        found = found.filter(test=test)
    if after is not None:
        at, last = after
        found = found.filter(created_at__lte=at)
        found = found.filter(Q(created_at__lt=at) | Q(batch__gt=last))
    # Both databases scan the index and stop when they have enough.
    launched = found.values_list("created_at", "batch").distinct()[: limit + 1]
    ids = [batch for _, batch in launched]
    found_batches = {runs[0].batch: runs for runs in load_batches(ids[:limit])}
    page = [found_batches[batch] for batch in ids[:limit] if batch in found_batches]
    return page, len(ids) > limit


def last_batches(tests: Collection[str]) -> Mapping[str, list[SmokeRun]]:
    """Return the newest batch of each of these tests that has any.

    Two queries, however many tests there are.
    """
    newest = (
        SmokeRun.objects.filter(test__in=tests)
        .order_by()
        .values_list("test")
        .annotate(at=Max("created_at"))
    )
    newest_batches = Q(pk__in=[])
    for test, at in newest:
        newest_batches |= Q(test=test, created_at=at)
    found: dict[str, list[SmokeRun]] = {}
    for run in (
        SmokeRun.objects.filter(newest_batches).defer("settings").order_by("repetition")
    ):
        found.setdefault(run.test, []).append(run)
    return found


def batch_before(run: SmokeRun) -> list[SmokeRun]:
    """Return the runs of the test's previous batch."""
    earlier = SmokeRun.objects.filter(test=run.test, created_at__lt=run.created_at)
    found = earlier.order_by("-created_at").values_list("batch", flat=True).first()
    return [] if found is None else load_batches([found])[0]


def is_judging(batch: uuid.UUID) -> bool:
    """Return whether any run of a batch waits for scores."""
    found = SmokeRun.objects.filter(batch=batch, state=SmokeRun.State.JUDGING)
    return found.exists()


def runs_of_users(users: Collection[UserId]) -> Mapping[UserId, uuid.UUID]:
    """Return the run of each synthetic user."""
    found = SmokeRun.objects.filter(user_id__in=users).values_list("user_id", "pk")
    return {UserId(user_id): run_id for user_id, run_id in found}


def last_batch(test: str) -> list[SmokeRun]:
    """Return a test's newest batch; empty if it has none."""
    last = newest_runs(test=test, limit=1)
    return load_batches([last[0].batch])[0] if last else []


def find_run(text: str) -> SmokeRun:
    """Return the run with this id or id prefix; raises `RunUnknown`."""
    prefix = text.strip().lower().replace("-", "")
    if not ID_PREFIX.fullmatch(prefix):
        raise RunUnknown(
            f"'{text}' is not a run id; `smoke list --runs` lists the runs"
        )
    first, last = (uuid.UUID(prefix.ljust(32, end)) for end in "0f")
    found = list(SmokeRun.objects.filter(id__gte=first, id__lte=last)[:2])
    if not found:
        raise RunUnknown
    if len(found) > 1:
        raise RunUnknown(f"several run ids begin with '{text}'; give more of the id")
    return found[0]
