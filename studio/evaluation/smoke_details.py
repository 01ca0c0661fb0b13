"""Additional data of smoke tests' pages, besides their configuration."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from config import live
from smoke.config import SMOKE_TESTS, SmokeTestConfig
from smoke.models import SmokeRun
from smoke.reports import batches
from smoke.schemas import SmokeBatch

BATCHES_SHOWN = 10
"""Batches on a test's own page."""


def load_overview() -> Mapping[str, Any]:
    """Return the newest batch of each test, and its next scheduled launch."""
    tests = live.current().get(SMOKE_TESTS)
    last = SmokeRun.objects.last_batches(tests)
    return {
        name: {
            "last": _serialize_batch(last[name]) if name in last else None,
            "next_at": next_launch_at(test),
        }
        for name, test in tests.items()
    }


def load_details(name: str, test: SmokeTestConfig | None) -> Mapping[str, Any]:
    """Return a test's newest batches and the comparison of the last one."""
    newest = SmokeRun.objects.newest_batches(name, BATCHES_SHOWN + 1)
    compared = batches.compare_batches(*newest[:2]) if len(newest) > 1 else []
    return {
        "next_at": None if test is None else next_launch_at(test),
        "batches": [_serialize_batch(batch) for batch in newest[:BATCHES_SHOWN]],
        "has_more": len(newest) > BATCHES_SHOWN,
        "compared": [each.model_dump() for each in compared],
    }


def next_launch_at(test: SmokeTestConfig) -> datetime | None:
    times = test.times
    return None if times is None else next(times.after(datetime.now(UTC)), None)


def _serialize_batch(runs: Sequence[SmokeRun]) -> dict[str, Any]:
    return batches.describe_batch(runs, SmokeBatch).model_dump()
