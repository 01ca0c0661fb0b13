"""Quantiles of Student's t distribution, which neither Python nor numpy has.

In terms of the angle whose tangent is t divided by the root of the degrees of freedom,
the density is a power of its cosine, which a Gauss-Legendre rule integrates exactly but
for rounding: to 1e-12 up to 1,000 degrees of freedom, and to 1e-9 up to a million.
"""

import math
from functools import lru_cache

import numpy as np

NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
BISECTIONS = 80


@lru_cache(maxsize=4096)
def quantile(share: float, degrees_of_freedom: int) -> float:
    """Return the quantile of a share from 0.5 up to 1.

    With more degrees of freedom it approaches the normal distribution.
    """
    low, high = 0.0, 1.0
    while cumulative_probability(high, degrees_of_freedom) < share:
        low, high = high, high * 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if cumulative_probability(middle, degrees_of_freedom) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def cumulative_probability(value: float, degrees_of_freedom: int) -> float:
    """Return the cumulative probability of a value that is not negative."""
    half = degrees_of_freedom / 2
    middle = math.atan(value / math.sqrt(degrees_of_freedom)) / 2
    cosines = np.cos(middle * (NODES + 1)) ** (degrees_of_freedom - 1)
    scale = math.exp(math.lgamma(half + 0.5) - math.lgamma(half))
    return float(0.5 + middle * (WEIGHTS @ cosines) * scale / math.sqrt(math.pi))
