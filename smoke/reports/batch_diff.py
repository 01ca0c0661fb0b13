"""Comparison of two batches, for example before and after a change of a prompt."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from smoke.models import SmokeRun
from smoke.reports import serializers

UNITS = ("share", "score", "turns", "seconds", "usd")
"""In the order of the report."""

INSIGNIFICANT = 0.05
"""Relative change of a time or cost that is noise."""


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """One measure of two batches; None for a missing one."""

    measure: str
    unit: str
    """One of `UNITS`."""
    now: float | None
    before: float | None

    @property
    def change(self) -> float | None:
        """The difference."""
        if self.now is None or self.before is None:
            return None
        return self.now - self.before

    @property
    def is_better(self) -> bool | None:
        """Whether the change is an improvement; None if it is insignificant."""
        if not self.change or self.unit == "turns":
            return None
        if self.unit in ("share", "score"):
            return self.change > 0
        is_slight = abs(self.change) < INSIGNIFICANT * (self.before or 0)
        return None if is_slight else self.change < 0


def compare_batches(
    now: Sequence[SmokeRun], before: Sequence[SmokeRun]
) -> list[MeasureDifference]:
    """Return the differences of two batches, measure by measure."""
    new, old = _batch_measures(now), _batch_measures(before)
    keys = sorted({**new, **old}, key=lambda key: (UNITS.index(key[1]), key))
    found = [MeasureDifference(*key, new.get(key), old.get(key)) for key in keys]
    return [each for each in found if (each.now, each.before) != (None, None)]


def _batch_measures(runs: Sequence[SmokeRun]) -> dict[tuple[str, str], float | None]:
    closed = [run for run in runs if serializers.run_outcome(run) != "open"]
    passed = [run for run in closed if run.verdict == SmokeRun.Verdict.PASSED]
    complete = [run for run in closed if run.verdict]
    return {
        ("passed", "share"): len(passed) / len(closed) if closed else None,
        **{(name, "score"): mean for name, mean in mean_scores(closed).items()},
        ("turns", "turns"): _mean([run.turns for run in complete]),
        ("duration", "seconds"): _mean(_without_none(map(run_seconds, complete))),
        ("cost", "usd"): _mean(_without_none(map(_usd, complete))),
    }


def mean_scores(runs: Sequence[SmokeRun]) -> dict[str, float]:
    """Return the mean of all scores by `judge.criterion`, over all agents."""
    sums: dict[str, list[float]] = {}
    for run in runs:
        for name, found in run.scores.items():
            total = sums.setdefault(name, [0.0, 0.0])
            total[0] += found["mean"] * found["count"]
            total[1] += found["count"]
    return {name: total / count for name, (total, count) in sorted(sums.items())}


def run_seconds(run: SmokeRun) -> float | None:
    """Return the duration of a conversation; None while it is open."""
    if run.started_at is None or run.ended_at is None:
        return None
    return (run.ended_at - run.started_at).total_seconds()


def _usd(run: SmokeRun) -> float | None:
    cost = serializers.total_cost([run])
    return None if cost is None else cost / 1_000_000


def _without_none(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def as_json(each: MeasureDifference) -> dict[str, Any]:
    """Return a measure as JSON."""
    return {
        "measure": each.measure,
        "unit": each.unit,
        "now": each.now,
        "before": each.before,
        "change": each.change,
        "is_better": each.is_better,
    }
