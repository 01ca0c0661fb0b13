"""Quantiles of Student's t distribution.

Uses the continued fraction of the regularised incomplete beta function (Lentz's method;
Press and others, Numerical Recipes, 3rd ed., 6.4), inverted by bisection.
"""

import math
from functools import lru_cache

TINY = 1e-300
MAX_ITERATIONS = 300
TOLERANCE = 1e-14


@lru_cache(maxsize=4096)
def quantile(share: float, degrees_of_freedom: int) -> float:
    """Return the quantile of a share from 0.5 up to 1.

    With more degrees of freedom it approaches the normal distribution.
    """
    low, high = 0.0, 1.0
    while cumulative_probability(high, degrees_of_freedom) < share:
        low, high = high, high * 2
    for _ in range(80):
        middle = (low + high) / 2
        if cumulative_probability(middle, degrees_of_freedom) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def cumulative_probability(value: float, degrees_of_freedom: int) -> float:
    """Return the cumulative probability of a value that is not negative."""
    outside = _incomplete_beta(
        degrees_of_freedom / (degrees_of_freedom + value * value),
        degrees_of_freedom / 2,
        0.5,
    )
    return 1 - outside / 2


def _incomplete_beta(at: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, from 0 to 1."""
    if at in (0.0, 1.0):
        return at
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logarithm + a * math.log(at) + b * math.log1p(-at))
    # The fraction converges fast only on this side of the mean.
    if at < (a + 1) / (a + b + 2):
        return front * _continued_fraction(at, a, b) / a
    return 1 - front * _continued_fraction(1 - at, b, a) / b


def _continued_fraction(at: float, a: float, b: float) -> float:
    upper, lower = 1.0, _nonzero(1 - (a + b) * at / (a + 1))
    lower = 1 / lower
    value = lower
    for step in range(1, MAX_ITERATIONS):
        for term in _fraction_terms(step, at, a, b):
            lower = 1 / _nonzero(1 + term * lower)
            upper = _nonzero(1 + term / upper)
            value *= lower * upper
        if abs(lower * upper - 1) < TOLERANCE:
            break
    return value


def _fraction_terms(step: int, at: float, a: float, b: float) -> tuple[float, float]:
    even = a + 2 * step
    return (
        step * (b - step) * at / ((even - 1) * even),
        -(a + step) * (a + b + step) * at / (even * (even + 1)),
    )


def _nonzero(value: float) -> float:
    return value if abs(value) > TINY else TINY
