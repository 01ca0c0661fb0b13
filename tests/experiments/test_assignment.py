"""Assignment of variants: sticky, and in the configured shares."""

import uuid
from collections import Counter
from dataclasses import dataclass
from itertools import islice

import pytest

from core.ids import UserId
from experiments import assignment
from experiments.config import ExperimentConfig

USERS = [UserId(uuid.uuid5(uuid.NAMESPACE_DNS, str(n))) for n in range(4_000)]


@dataclass(frozen=True)
class VariantScores:
    count: int
    mean: float


def experiment(strategy: str = "split", **fields) -> ExperimentConfig:
    variants = fields.pop("variants", [{"agent": "a"}, {"agent": "b"}, {"agent": "c"}])
    return ExperimentConfig.model_validate(
        {"name": "e", "strategy": strategy, "variants": variants, **fields}
    )


def shares(experiment: ExperimentConfig, scores=None) -> dict[str, float]:
    chosen = Counter(
        assignment.choose_variant(experiment, user, scores) for user in USERS
    )
    return {agent: count / len(USERS) for agent, count in chosen.items()}


def is_about(share: float) -> object:
    # Five standard deviations of a share of 4,000.
    return pytest.approx(share, abs=5 * (share * (1 - share) / len(USERS)) ** 0.5)


def test_weights_are_the_shares_of_users():
    weighted = experiment(
        variants=[{"agent": "a", "weight": 3}, {"agent": "b"}, {"agent": "c"}]
    )
    found = shares(weighted)
    assert found == {"a": is_about(0.6), "b": is_about(0.2), "c": is_about(0.2)}


def test_assignment_is_sticky_and_independent_per_experiment():
    one, other = experiment(), experiment(name="other")
    first = [assignment.choose_variant(one, user) for user in USERS]
    assert first == [assignment.choose_variant(one, user) for user in USERS]
    second = [assignment.choose_variant(other, user) for user in USERS]
    equal_share = sum(a == b for a, b in zip(first, second, strict=True)) / len(USERS)
    assert equal_share == is_about(1 / 3)


def test_hash_is_stable_across_versions():
    # A change of the hash would move users to other variants.
    fixed_user = UserId(uuid.UUID("5d2e6b62-5f0a-5c43-9f7e-0c8f2a1c7d11"))
    numbers = assignment.random_source(experiment(), fixed_user)
    assert [round(numbers(), 6) for _ in range(2)] == [0.136815, 0.103457]


def test_unsticky_assignment_is_drawn_per_request():
    drawn = experiment(sticky_by_user=False)
    found = Counter(assignment.choose_variant(drawn, USERS[0]) for _ in range(4_000))
    assert {agent: count / 4_000 for agent, count in found.items()} == {
        agent: is_about(1 / 3) for agent in "abc"
    }


def test_weight_boundaries_belong_to_a_variant():
    variants = experiment(variants=[{"agent": "a", "weight": 1e-9}, {"agent": "b"}])
    assert assignment.variant_at(variants.variants, 0.0) == "a"
    assert assignment.variant_at(variants.variants, 1 - 2**-53) == "b"


def test_shadow_answers_only_with_its_primary():
    assert shares(experiment("shadow", primary="b")) == {"b": 1.0}


def bandit(**fields) -> ExperimentConfig:
    return experiment("bandit", metric="j.c", **{"min_samples": 10, **fields})


SCORED = {
    "a": VariantScores(10, 6.0),
    "b": VariantScores(12, 8.0),
    "c": VariantScores(40, 7.0),
}


def test_bandit_exploits_the_leader_except_for_epsilon():
    found = shares(bandit(epsilon=0.3), SCORED)
    assert found == {"a": is_about(0.1), "b": is_about(0.8), "c": is_about(0.1)}
    assert shares(bandit(epsilon=0), SCORED) == {"b": 1.0}
    assert shares(bandit(epsilon=1), SCORED)["b"] == is_about(1 / 3)


def test_undersampled_variants_come_first():
    scores = {**SCORED, "a": VariantScores(9, 1.0)}
    assert shares(bandit(), scores) == {"a": 1.0}
    assert shares(bandit(), {"b": VariantScores(10, 9.0)}) == {
        "a": is_about(0.5),
        "c": is_about(0.5),
    }
    assert assignment.bandit_status(bandit(), scores).undersampled == ["a"]


def test_bandit_without_scores_explores_all():
    assert shares(bandit(), {}) == {agent: is_about(1 / 3) for agent in "abc"}
    assert shares(bandit(min_samples=0), {}) == {
        agent: is_about(1 / 3) for agent in "abc"
    }


def test_bandit_user_moves_only_with_the_leader():
    one, user = bandit(epsilon=0.1), USERS[0]
    before = assignment.choose_variant(one, user, SCORED)
    assert all(
        assignment.choose_variant(one, user, SCORED) == before for _ in range(20)
    )
    moved = {**SCORED, "c": VariantScores(40, 9.0)}
    assert assignment.choose_variant(one, user, moved) != before


def test_leader_tie_is_broken_by_file_order():
    scores = {agent: VariantScores(10, 7.0) for agent in "cba"}
    assert assignment.bandit_status(bandit(), scores).leader == "a"


def test_random_numbers_are_below_one():
    numbers = (
        assignment.random_source(experiment(), user) for user in islice(USERS, 500)
    )
    assert all(0 <= drawn() < 1 for drawn in numbers for _ in range(3))
