"""Figures of batches, and the comparison of two, as before and after a new prompt."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from smoke.models import SmokeRun
from smoke.schemas import ComparedMeasure, SmokeBatch

UNITS = ("share", "score", "turns", "seconds", "usd")
"""In the order of the report."""

INSIGNIFICANT = 0.05
"""Relative change of a time or cost that is noise."""

BatchShape = TypeVar("BatchShape", bound=SmokeBatch)


def describe_batch(runs: Sequence[SmokeRun], shape: type[BatchShape]) -> BatchShape:
    """Return a batch and its results in a shape of `smoke.schemas`."""
    cost, first = total_cost(runs), runs[0]
    batch = {
        "id": first.batch,
        "test": first.test,
        "target": first.target,
        "origin": first.origin,
        "created_at": first.created_at,
        **count_outcomes(runs),
        "scores": mean_scores(runs),
        "means": mean_values(runs),
        "cost_usd": None if cost is None else cost / 1_000_000,
        "runs": runs,
    }
    return shape.model_validate(batch, from_attributes=True)


def count_outcomes(runs: Sequence[SmokeRun]) -> dict[str, int]:
    """Return the number of passed, failed, aborted and open runs."""
    found = Counter(run.outcome for run in runs)
    return {name: found[name] for name in ("passed", "failed", "aborted", "open")}


def mean_scores(runs: Sequence[SmokeRun]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the mean scores by agent, and by `judge.criterion`."""
    by_agent: dict[str, list[SmokeRun]] = {}
    for run in runs:
        if run.scores:
            by_agent.setdefault(run.agent, []).append(run)
    return {agent: _mean_criteria(rows) for agent, rows in sorted(by_agent.items())}


def mean_values(runs: Sequence[SmokeRun]) -> dict[str, float]:
    """Return the mean of all scores by `judge.criterion`, over all agents."""
    return {name: score["mean"] for name, score in _mean_criteria(runs).items()}


def _mean_criteria(runs: Sequence[SmokeRun]) -> dict[str, dict[str, float]]:
    sums: dict[str, list[float]] = {}
    for run in runs:
        for name, found in run.scores.items():
            total = sums.setdefault(name, [0.0, 0])
            total[0] += found["mean"] * found["count"]
            total[1] += found["count"]
    return {
        name: {"mean": total / count, "count": count}
        for name, (total, count) in sorted(sums.items())
    }


def total_cost(runs: Iterable[SmokeRun]) -> int | None:
    """Return the cost of replies and personas; None if any part is unknown."""
    costs = [run.total_micro_usd for run in runs]
    return None if None in costs else sum(filter(None, costs))


def compare_batches(
    now: Sequence[SmokeRun], before: Sequence[SmokeRun]
) -> list[ComparedMeasure]:
    """Return the differences of two batches; none unless both have results."""
    if not before or all(run.outcome == "open" for run in now):
        return []
    new, old = _batch_measures(now), _batch_measures(before)
    keys = sorted({**new, **old}, key=lambda key: (UNITS.index(key[1]), key))
    found = [compare_measure(*key, new.get(key), old.get(key)) for key in keys]
    return [each for each in found if (each.now, each.before) != (None, None)]


def compare_measure(
    measure: str, unit: Any, now: float | None, before: float | None
) -> ComparedMeasure:
    """Return a measure of two batches; None for a missing one."""
    change = None if now is None or before is None else now - before
    return ComparedMeasure(
        measure=measure,
        unit=unit,
        now=now,
        before=before,
        change=change,
        is_better=_is_better(unit, change, before or 0),
    )


def _is_better(unit: str, change: float | None, before: float) -> bool | None:
    """Return whether a change is an improvement; None if it is insignificant."""
    if not change or unit == "turns":
        return None
    if unit in ("share", "score"):
        return change > 0
    return None if abs(change) < INSIGNIFICANT * before else change < 0


def _batch_measures(runs: Sequence[SmokeRun]) -> dict[tuple[str, str], float | None]:
    closed = [run for run in runs if run.outcome != "open"]
    passed = [run for run in closed if run.verdict == SmokeRun.Verdict.PASSED]
    complete = [run for run in closed if run.verdict]
    costs = [run.total_micro_usd for run in complete]
    return {
        ("passed", "share"): len(passed) / len(closed) if closed else None,
        **{(name, "score"): mean for name, mean in mean_values(closed).items()},
        ("turns", "turns"): _mean([run.turns for run in complete]),
        ("duration", "seconds"): _mean([run.seconds for run in complete]),
        ("cost", "usd"): _mean([cost and cost / 1_000_000 for cost in costs]),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
