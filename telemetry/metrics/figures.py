"""What other apps give to the metrics."""

import uuid
from collections.abc import Collection
from typing import NamedTuple

Reference = tuple[str, str | uuid.UUID]
"""What an exemplar refers to: `("trace_id", …)` or `("turn_id", …)`."""


class Figure(NamedTuple):
    """A gauge with its values, which are read at each scrape."""

    name: str
    """Without `coulisse_`."""
    help: str
    labels: tuple[str, ...]
    values: Collection[tuple[tuple[str, ...], float]]
    """Each with the values of its labels."""
