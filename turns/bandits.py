"""What a bandit knows of its arms: their recent scores, remembered for a moment."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.config import ExperimentConfig
from judges.scores import Stats
from turns import experiment_scores, lane
from turns.errors import DatabaseDown

REMEMBERED_SECONDS = 5.0
"""How old the scores may be that a request is routed by: a turn that was just judged
need not weigh at once, and the database is not asked for every request."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was read."""

    stats: Mapping[str, Stats]
    until: float
    """By the clock that never jumps."""


_known: dict[ExperimentConfig, Known] = {}


async def read(experiment: ExperimentConfig) -> Mapping[str, Stats]:
    """Return the recent scores of a bandit's variants, by agent.

    While one request reads them anew, the others go by what was read before, as all do
    while the database is away.
    """
    known, now = _known.get(experiment), time.monotonic()
    if known is not None:
        if now < known.until:
            return known.stats
        _known[experiment] = Known(known.stats, now + REMEMBERED_SECONDS)
    try:
        stats = await lane.run(experiment_scores.recent, experiment)
    except DatabaseDown:
        if known is None:
            raise
        return known.stats
    _forget_edited(experiment)
    _known[experiment] = Known(stats, time.monotonic() + REMEMBERED_SECONDS)
    return stats


def forget() -> None:
    """Have the next request of each bandit read its scores."""
    _known.clear()


def _forget_edited(experiment: ExperimentConfig) -> None:
    for other in [each for each in _known if each.name == experiment.name]:
        if other != experiment:
            _known.pop(other, None)
