"""Additional data of smoke tests' pages, besides their configuration."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from config import live
from smoke.config import SMOKE_TESTS, SmokeTestConfig
from smoke.models import SmokeRun
from smoke.reports import batch_diff, run_queries, serializers

BATCHES_SHOWN = 10
"""Batches on a test's own page."""


def load_overview() -> Mapping[str, Any]:
    """Return the newest batch of each test, and its next scheduled launch."""
    tests = live.current().get(SMOKE_TESTS)
    last = run_queries.last_batches(tests)
    return {
        name: {
            "last": serialize_batch(last[name]) if name in last else None,
            "next_at": next_launch_at(test),
        }
        for name, test in tests.items()
    }


def load_details(name: str, test: SmokeTestConfig | None) -> Mapping[str, Any]:
    """Return a test's newest batches and the comparison of the last one."""
    batches, has_more = run_queries.page_batches(test=name, limit=BATCHES_SHOWN)
    last = batches[0] if batches else []
    return {
        "next_at": None if test is None else next_launch_at(test),
        "batches": [serialize_batch(batch) for batch in batches],
        "has_more": has_more,
        "compared": compare_batches(last, batches[1] if len(batches) > 1 else []),
    }


def next_launch_at(test: SmokeTestConfig) -> datetime | None:
    """Return when a test is next launched on its schedule."""
    times = test.times
    return None if times is None else next(times.after(datetime.now(UTC)), None)


def serialize_batch(runs: Sequence[SmokeRun]) -> dict[str, Any]:
    """Return a batch in short, with the state of each run."""
    return {
        **serializers.serialize_batch(runs),
        "created_at": runs[0].created_at,
        "origin": runs[0].origin,
        "means": batch_diff.mean_scores(runs),
        "runs": [serialize_run_summary(run) for run in runs],
    }


def serialize_run_summary(run: SmokeRun) -> dict[str, Any]:
    """Return the state of a run."""
    return {
        "id": str(run.pk),
        "repetition": run.repetition,
        "state": run.state,
        "outcome": serializers.run_outcome(run),
        "agent": run.agent or None,
        "turns": run.turns,
    }


def compare_batches(
    now: Sequence[SmokeRun], before: Sequence[SmokeRun]
) -> list[dict[str, Any]]:
    """Return the measures of two batches; empty unless both have results."""
    has_results = any(serializers.run_outcome(run) != "open" for run in now)
    if not before or not has_results:
        return []
    return [
        batch_diff.as_json(each) for each in batch_diff.compare_batches(now, before)
    ]
