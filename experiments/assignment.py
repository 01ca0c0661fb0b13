"""Assigns a variant to a request: by a hash of the user, or at random.

A hash needs no table: a user gets the same variant in every process and after every
restart, as long as the variants and their weights stay the same. Source: "Strategies"
of the reference.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from core.ids import UserId
from experiments.config import ExperimentConfig, Variant
from judges.ratings.statistics import ScoreStats

RandomSource = Callable[[], float]
"""Returns successive numbers from 0 up to 1."""


@dataclass(frozen=True, slots=True)
class BanditStatus:
    undersampled: Sequence[str]
    """Variants with fewer scores than required that may still get more."""
    leader: str | None
    """The best variant, once none is undersampled; ties go to the first in the file."""


def choose_variant(
    experiment: ExperimentConfig,
    user_id: UserId,
    scores: Mapping[str, ScoreStats] | None = None,
    silent: Set[str] = frozenset(),
) -> str:
    """Return the agent that answers; `scores` are a bandit's, by agent.

    `silent` are variants that are not expected to get more scores.
    """
    if experiment.strategy == "shadow":
        return experiment.primary or experiment.agents[0]
    random_numbers = random_source(experiment, user_id)
    if experiment.strategy == "bandit":
        return _choose_bandit_variant(
            experiment, bandit_status(experiment, scores or {}, silent), random_numbers
        )
    return variant_at(experiment.variants, random_numbers())


def random_source(experiment: ExperimentConfig, user_id: UserId) -> RandomSource:
    """Return the source of numbers: a hash of the user, or random."""
    if not experiment.sticky_by_user:
        return random.random
    digest = hashlib.sha256(user_id.bytes + experiment.name.encode()).digest()
    parts = (digest[start : start + 8] for start in range(0, len(digest), 8))
    numbers = (int.from_bytes(part) / 2**64 for part in parts)
    # 53 bits, the precision of a float below 1.
    return lambda: min(next(numbers), 1 - 2**-53)


def variant_at(variants: Sequence[Variant], position: float) -> str:
    """Return the variant at a position from 0 to 1 along the cumulative weights."""
    distance = position * sum(variant.weight for variant in variants)
    for variant in variants:
        distance -= variant.weight
        if distance < 0:
            return variant.agent
    return variants[-1].agent


def bandit_status(
    experiment: ExperimentConfig,
    scores: Mapping[str, ScoreStats],
    silent: Set[str] = frozenset(),
) -> BanditStatus:
    """Return the state of the variants; `silent` ones do not count as undersampled."""
    counts = {
        name: scores[name].count if name in scores else 0 for name in experiment.agents
    }
    too_few = [name for name in counts if counts[name] < experiment.min_samples]
    undersampled = [name for name in too_few if name not in silent]
    comparable = [name for name in counts if counts[name] and name not in too_few]
    if undersampled or not comparable:
        return BanditStatus(undersampled, None)
    return BanditStatus((), max(comparable, key=lambda name: scores[name].mean))


def choice_probabilities(
    experiment: ExperimentConfig, status: BanditStatus
) -> dict[str, float]:
    """Return the probability of each variant of a bandit, by its current state."""
    names = experiment.agents
    if status.undersampled:
        return {
            name: (name in status.undersampled) / len(status.undersampled)
            for name in names
        }
    if status.leader is None:
        return dict.fromkeys(names, 1 / len(names))
    probabilities = dict.fromkeys(names, experiment.epsilon / len(names))
    probabilities[status.leader] += 1 - experiment.epsilon
    return probabilities


def _choose_bandit_variant(
    experiment: ExperimentConfig, status: BanditStatus, random_numbers: RandomSource
) -> str:
    """Prefer undersampled variants, then explore at random or take the leader."""
    explores = random_numbers() < experiment.epsilon
    if status.undersampled:
        return _pick(status.undersampled, random_numbers())
    if status.leader is None or explores:
        return _pick(experiment.agents, random_numbers())
    return status.leader


def _pick(names: Sequence[str], position: float) -> str:
    return names[int(position * len(names))]
