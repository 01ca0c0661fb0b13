"""The differences of two batches, and which are improvements."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from smoke.models import SmokeRun
from smoke.reports import batches

BEGAN = datetime(2026, 5, 6, tzinfo=UTC)


def run(verdict="passed", *, turns=2, seconds=4.0, cost=1_000, **scores):
    """A run that is closed."""
    return SmokeRun(
        state="done",
        verdict=verdict,
        turns=turns,
        id=uuid.uuid4(),
        cost_micro_usd=cost,
        persona_micro_usd=0,
        started_at=BEGAN,
        ended_at=BEGAN + timedelta(seconds=seconds),
        scores={
            f"quality.{name}": {"mean": mean, "count": count}
            for name, (mean, count) in scores.items()
        },
    )


def test_mean_scores_are_weighted_by_score_count():
    batch = [run(tone=(9.0, 3), wit=(5.0, 1)), run(tone=(5.0, 1))]
    assert batches.mean_values(batch) == {"quality.tone": 8.0, "quality.wit": 5.0}


def test_batches_are_compared_by_the_same_measures():
    now = [run(tone=(8.0, 1), cost=None), run("failed", turns=4, seconds=6)]
    open_ = SmokeRun(state="running", scores={})
    before = [run(wit=(3.0, 1)), open_]
    differences = {
        each.measure: (each.now, each.before)
        for each in batches.compare_batches(now, before)
    }
    assert differences == {
        "passed": (0.5, 1.0),
        "quality.tone": (8.0, None),
        "quality.wit": (None, 3.0),
        "turns": (3.0, 2.0),
        "duration": (5.0, 4.0),
        # Known values.
        "cost": (0.001, 0.001),
    }


@pytest.mark.parametrize(
    ("unit", "now", "before", "is_better"),
    [
        ("score", 8.0, 7.9, True),
        ("share", 0.5, 0.6, False),
        ("seconds", 4.0, 5.0, True),
        ("usd", 0.2, 0.1, False),
        # Times and costs are never quite the same.
        ("seconds", 4.1, 4.0, None),
        ("usd", 0.1, 0.1, None),
        ("turns", 9.0, 1.0, None),
        ("score", None, 1.0, None),
        ("usd", 0.1, 0.0, False),
    ],
)
def test_difference_says_whether_it_is_better(unit, now, before, is_better):
    assert batches.compare_measure("it", unit, now, before).is_better is is_better
