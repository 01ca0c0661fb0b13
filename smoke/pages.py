"""Runs, read back."""

import re
import uuid
from collections.abc import Collection

from smoke.errors import RunUnknown
from smoke.models import Run

PREFIX = re.compile(r"[0-9a-f]{4,32}")
"""How an id begins, its hyphens left out."""


def newest(*, test: str | None = None, limit: int) -> list[Run]:
    """Return runs, the newest first."""
    found = Run.objects.order_by("-created_at", "repetition")
    if test is not None:
        found = found.filter(test=test)
    return list(found[:limit])


def batches(ids: Collection[uuid.UUID]) -> list[list[Run]]:
    """Return batches in the order they were launched, each with its runs."""
    found: dict[uuid.UUID, list[Run]] = {}
    ordered = Run.objects.filter(batch__in=ids).order_by("created_at", "repetition")
    for run in ordered:
        found.setdefault(run.batch, []).append(run)
    return list(found.values())


def last_batch(test: str) -> list[Run]:
    """Return a test's newest batch; nothing where it was never run."""
    last = newest(test=test, limit=1)
    return batches([last[0].batch])[0] if last else []


def find(text: str) -> Run:
    """Return the run of an id, or of how one begins; raises `RunUnknown`."""
    prefix = text.strip().lower().replace("-", "")
    if not PREFIX.fullmatch(prefix):
        raise RunUnknown(f"'{text}' is no id of a run; `smoke list --runs` lists them")
    first, last = (uuid.UUID(prefix.ljust(32, end)) for end in "0f")
    found = list(Run.objects.filter(id__gte=first, id__lte=last)[:2])
    if not found:
        raise RunUnknown
    if len(found) > 1:
        raise RunUnknown(f"several runs begin with '{text}': give more of the id")
    return found[0]
