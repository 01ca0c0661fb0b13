"""Figures that are read at each scrape."""

from collections.abc import Collection
from typing import NamedTuple


class Figure(NamedTuple):
    """A gauge with its values."""

    name: str
    """Without `coulisse_`."""
    help: str
    labels: tuple[str, ...]
    values: Collection[tuple[tuple[str, ...], float]]
    """Each with the values of its labels."""
