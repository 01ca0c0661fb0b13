"""Assigns a variant to a request: by a hash of the user, or at random.

A hash needs no table: a user gets the same variant in every process and after every
restart, as long as the variants and their weights stay the same. Source: "Strategies"
of the reference.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from core.ids import UserId
from experiments.config import ExperimentConfig, Variant


class VariantScores(Protocol):
    """The scores of a variant."""

    @property
    def count(self) -> int:
        """The number of scores."""

    @property
    def mean(self) -> float:
        """The mean of the scores; requires at least one."""


RandomSource = Callable[[], float]
"""Returns successive numbers from 0 up to 1."""


@dataclass(frozen=True, slots=True)
class BanditStatus:
    """The state of a bandit's variants."""

    undersampled: Sequence[str]
    """Variants with fewer scores than required, from which more are expected."""
    leader: str | None
    """The best variant, once none is undersampled; ties go to the first in the file."""


def choose_variant(
    experiment: ExperimentConfig,
    user_id: UserId,
    scores: Mapping[str, VariantScores] | None = None,
    silent: Set[str] = frozenset(),
) -> str:
    """Return the agent that answers; `scores` are a bandit's, by agent.

    `silent` are variants that are no longer expected to get scores.
    """
    if experiment.strategy == "shadow":
        return experiment.primary or experiment.agents[0]
    drawn = random_source(experiment, user_id)
    if experiment.strategy == "bandit":
        return _choose_bandit_variant(
            experiment, bandit_status(experiment, scores or {}, silent), drawn
        )
    return variant_at(experiment.variants, drawn())


def random_source(experiment: ExperimentConfig, user_id: UserId) -> RandomSource:
    """Return the source of numbers: a hash of the user, or random."""
    if not experiment.sticky_by_user:
        return random.random
    told = user_id.bytes + experiment.name.encode()
    digest = hashlib.sha256(told).digest()
    parts = (digest[start : start + 8] for start in range(0, len(digest), 8))
    # 53 bits, the precision of a float below 1.
    found = (int.from_bytes(part) / 2**64 for part in parts)
    return lambda: min(next(found), 1 - 2**-53)


def variant_at(variants: Sequence[Variant], at: float) -> str:
    """Return the variant at a position from 0 to 1 along the cumulative weights."""
    left = at * sum(variant.weight for variant in variants)
    for variant in variants:
        left -= variant.weight
        if left < 0:
            return variant.agent
    return variants[-1].agent


def bandit_status(
    experiment: ExperimentConfig,
    scores: Mapping[str, VariantScores],
    silent: Set[str] = frozenset(),
) -> BanditStatus:
    """Return the state of the variants; `silent` ones do not count as undersampled."""
    counts = {
        arm: scores[arm].count if arm in scores else 0 for arm in experiment.agents
    }
    short = [arm for arm in counts if counts[arm] < experiment.min_samples]
    starved = [arm for arm in short if arm not in silent]
    able = [arm for arm in counts if counts[arm] and arm not in short]
    if starved or not able:
        return BanditStatus(starved, None)
    return BanditStatus((), max(able, key=lambda arm: scores[arm].mean))


def choice_probabilities(
    experiment: ExperimentConfig, stands: BanditStatus
) -> dict[str, float]:
    """Return the probability of each variant of a bandit, by its current state."""
    arms = experiment.agents
    if stands.undersampled:
        return {
            arm: (arm in stands.undersampled) / len(stands.undersampled) for arm in arms
        }
    if stands.leader is None:
        return dict.fromkeys(arms, 1 / len(arms))
    found = dict.fromkeys(arms, experiment.epsilon / len(arms))
    found[stands.leader] += 1 - experiment.epsilon
    return found


def _choose_bandit_variant(
    experiment: ExperimentConfig, stands: BanditStatus, drawn: RandomSource
) -> str:
    """Prefer undersampled variants, then explore at random or take the leader."""
    is_adventurous = drawn() < experiment.epsilon
    if stands.undersampled:
        return _pick(stands.undersampled, drawn())
    if stands.leader is None or is_adventurous:
        return _pick(experiment.agents, drawn())
    return stands.leader


def _pick(names: Sequence[str], at: float) -> str:
    return names[int(at * len(names))]
