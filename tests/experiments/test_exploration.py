"""How long a bandit prefers a variant that gets no scores."""

import logging
from types import SimpleNamespace

import pytest

from core.ids import UserId
from experiments import assignment, exploration
from experiments.exploration import MIN_TURNS, ExplorationTracker, max_turns
from tests.experiments.test_assignment import SCORED, USERS, VariantScores, bandit

SHORT = {**SCORED, "a": VariantScores(4, 9.0)}
"""One variant lacks scores."""


@pytest.fixture
def clock(monkeypatch):
    now = [1_000.0]
    monkeypatch.setattr(exploration, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def take(
    waits: ExplorationTracker, experiment, scores, turns: int, rate: float = 1
) -> list[str]:
    """Return the chosen variant of each turn."""
    chosen = []
    for turn in range(turns):
        silent = waits.exhausted_variants(experiment, scores, rate)
        user: UserId = USERS[turn % len(USERS)]
        chosen.append(assignment.choose_variant(experiment, user, scores, silent))
        waits.count_turn(chosen[-1])
    return chosen


def test_variant_without_scores_is_forced_for_limited_turns(caplog):
    one, waits = bandit(epsilon=0), ExplorationTracker("j.c")
    assert set(take(waits, one, SHORT, MIN_TURNS)) == {"a"}
    assert caplog.records == []
    # Its mean is 9, but four scores are too few to lead.
    assert set(take(waits, one, SHORT, 50)) == {"b"}
    [line] = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "variant 'a' had 100 turns without a new score for 'j.c'" in line
    assert "judge 'j'" in line


def test_exhausted_variant_is_explored_like_any_other():
    one, waits = bandit(epsilon=1), ExplorationTracker("j.c")
    take(waits, one, SHORT, MIN_TURNS)
    assert set(take(waits, one, SHORT, 50)) == {"a", "b", "c"}


def test_new_score_restarts_forcing():
    one, waits = bandit(epsilon=0), ExplorationTracker("j.c")
    take(waits, one, SHORT, MIN_TURNS + 1)
    assert waits.exhausted_variants(one, SHORT, 1) == {"a"}
    # All its scores leave the window, then a new one arrives.
    assert waits.exhausted_variants(one, SCORED | {"a": VariantScores(0, 0)}, 1) == {
        "a"
    }
    assert (
        waits.exhausted_variants(one, SCORED | {"a": VariantScores(1, 5)}, 1) == set()
    )
    # As long as scores arrive, the variant stays preferred.
    for count in range(1, 10):
        some = SCORED | {"a": VariantScores(count, 5)}
        assert set(take(waits, one, some, MIN_TURNS - 1)) == {"a"}


def test_elapsed_window_restarts_forcing(clock, caplog):
    one, waits = (
        bandit(epsilon=0, bandit_window_seconds=3_600),
        ExplorationTracker("j.c"),
    )
    take(waits, one, SHORT, MIN_TURNS)
    for _ in range(6):
        clock[0] += 599
        assert waits.exhausted_variants(one, SHORT, 1) == {"a"}
    assert len(caplog.records) == 3  # One in ten minutes.
    clock[0] += 60
    assert waits.exhausted_variants(one, SHORT, 1) == set()


def test_all_variants_without_scores_are_explored():
    one, waits = bandit(epsilon=0), ExplorationTracker("j.c")
    take(waits, one, {}, 3 * MIN_TURNS + 50)
    assert waits.exhausted_variants(one, {}, 1) == {"a", "b", "c"}
    assert set(take(waits, one, {}, 50)) == {"a", "b", "c"}


def test_variants_with_enough_scores_are_not_tracked(caplog):
    waits = ExplorationTracker("j.c")
    take(waits, bandit(epsilon=0), SCORED, 3 * MIN_TURNS)
    assert caplog.records == []
    assert waits.waits == {}


def test_more_samples_or_a_lower_rate_allow_more_turns():
    assert max_turns(bandit(), 1) == MIN_TURNS
    assert max_turns(bandit(min_samples=30), 1) == 150
    assert max_turns(bandit(), 0.05) == 400
    assert max_turns(bandit(min_samples=30), 0) == 150
