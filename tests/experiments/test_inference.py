"""Inference, compared with tables, closed forms and simulations."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pytest

from experiments.comparison import inference
from experiments.comparison.inference import MeanEstimate


@dataclass(frozen=True)
class Scores:
    count: int
    mean: float
    variance: float


@pytest.mark.parametrize(
    ("share", "freedom", "printed"),
    [
        # From a table of Student's t.
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 4, 2.776),
        (0.975, 10, 2.228),
        (0.975, 30, 2.042),
        (0.975, 120, 1.980),
        (0.95, 7, 1.895),
        (0.99, 15, 2.602),
        (0.975, 10**6, 1.960),
    ],
)
def test_quantiles_match_printed_tables(share, freedom, printed):
    assert inference.quantile(share, freedom) == pytest.approx(printed, abs=5e-4)


def test_one_and_two_degrees_match_closed_forms():
    for value in (0.0, 0.3, 1.0, 7.5):
        cauchy = 0.5 + np.arctan(value) / np.pi
        assert inference.cumulative_probability(value, 1) == pytest.approx(
            cauchy, abs=1e-12
        )
        two = 0.5 + value / (2 * np.sqrt(2 + value**2))
        assert inference.cumulative_probability(value, 2) == pytest.approx(
            two, abs=1e-12
        )


def test_interval_matches_the_textbook():
    # Mean 7, s = 2, n = 25: 7 ± 2.064 · 2 / 5.
    [found] = inference.estimate_means(["a"], {"a": Scores(25, 7.0, 4.0)})
    assert (found.low, found.high) == (
        pytest.approx(7 - 0.8256, abs=1e-3),
        pytest.approx(7 + 0.8256, abs=1e-3),
    )
    assert found.best == 1.0


@pytest.mark.parametrize("ahead", [0.0, 0.2, 0.5, 1.0])
def test_many_scores_match_the_normal_distribution(ahead):
    one, other = Scores(2_000, 7.0, 4.0), Scores(1_500, 7.0 + ahead / 5, 3.0)
    spread = (4.0 / 2_000 + 3.0 / 1_500) ** 0.5
    expected = NormalDist().cdf(ahead / 5 / spread)
    first, second = inference.probabilities_best([one, other])
    assert second == pytest.approx(expected, abs=0.001)
    assert first + second == pytest.approx(1)


@pytest.mark.parametrize("ahead", [0.0, 0.5, 3.0])
def test_two_scores_each_match_the_closed_form(ahead):
    # Student's t with one degree of freedom is Cauchy's; of two, so is the difference.
    one, other = Scores(2, 6.0, 4.0), Scores(2, 6.0 + ahead, 1.0)
    scale = (4.0 / 2) ** 0.5 + (1.0 / 2) ** 0.5
    expected = 0.5 + np.arctan(ahead / scale) / np.pi
    _, second = inference.probabilities_best([one, other])
    assert second == pytest.approx(expected, abs=1e-4)


def test_three_equal_variants_are_equally_likely():
    found = inference.probabilities_best([Scores(50, 6.0, 4.0)] * 3)
    assert found == [pytest.approx(1 / 3, abs=1e-6)] * 3


def test_few_scores_convince_less_than_many():
    def chance(count: int) -> float:
        return inference.probabilities_best(
            [Scores(count, 6.0, 4.0), Scores(count, 7.0, 4.0)]
        )[1]

    assert chance(3) < 0.75 < chance(30) < 0.98 < chance(100)


def test_estimates_are_deterministic():
    scores = {"a": Scores(9, 6.0, 4.0), "b": Scores(12, 6.5, 3.0)}
    assert inference.estimate_means("ab", scores) == inference.estimate_means(
        "ab", scores
    )


def test_identical_scores_do_not_give_certainty():
    found = inference.estimate_means(
        "ab", {"a": Scores(2, 8.0, 0.0), "b": Scores(2, 9.0, 0)}
    )
    assert all(each.low < each.mean < each.high for each in found)
    assert found[1].best < 0.95


def test_unscored_variant_has_no_estimate():
    found = inference.estimate_means(
        "abc", {"a": Scores(9, 6.0, 4.0), "b": Scores(1, 9.0, 0)}
    )
    assert found == [
        MeanEstimate("a", 9, 6.0, found[0].low, found[0].high, None),
        MeanEstimate("b", 1, 9.0),
        MeanEstimate("c", 0),
    ]
    assert found[0].low is not None


def test_interval_has_its_nominal_coverage():
    drawn = np.random.default_rng(7)
    truth, covered, runs = 6.5, 0, 2_000
    for sample in drawn.normal(truth, 2.0, (runs, 8)):
        scores = Scores(8, float(sample.mean()), float(sample.var(ddof=1)))
        estimate = inference._estimate_mean("a", scores, None)
        covered += estimate.low <= truth <= estimate.high
    assert covered / runs == pytest.approx(0.95, abs=0.015)


def won(*found: MeanEstimate, confidence=0.95, min_samples=10) -> str | None:
    best = inference.find_winner(found, confidence=confidence, min_samples=min_samples)
    return None if best is None else best.agent


def test_winner_requires_confidence_and_enough_scores():
    ahead, behind = MeanEstimate("a", 10, best=0.96), MeanEstimate("b", 10, best=0.04)
    assert won(ahead, behind) == "a"
    assert won(ahead, behind, confidence=0.97) is None
    assert won(ahead, behind, min_samples=11) is None
    assert won(ahead, MeanEstimate("b", 9, best=0.04)) is None
    assert won(ahead, MeanEstimate("b", 0)) is None
    assert won(MeanEstimate("a", 99, best=1.0)) is None
