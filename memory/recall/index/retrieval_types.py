"""What a search asks, and what each way of looking finds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.recall.index import tokenizer
from memory.types import Category, Embedded, Query, Status

Scores = NDArray[np.float32] | NDArray[np.float64]

MIN_SIMILARITY = 1e-9
"""A cosine of zero is a text without a vector."""
RETRIEVAL_DEPTH = 100
"""How many passages each way of looking may find."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query, taken apart once."""

    terms: list[str]
    """Each once."""
    embedded: Embedded | None
    similarity_threshold: float

    @property
    def is_empty(self) -> bool:
        return not self.terms and self.embedded is None


@dataclass(frozen=True, slots=True)
class FactFilter:
    """Which facts are meant; None is any."""

    category: Category | None = None
    status: Status | None = "active"

    @property
    def column_values(self) -> dict[str, str]:
        """The columns that must have a value."""
        asked = {"category": self.category, "status": self.status}
        return {name: value for name, value in asked.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RetrieverScores:
    """Passages, and their score by each way of looking; zero is not found by it."""

    ids: NDArray[np.int64]
    """In order."""
    similarity: Scores
    terms: Scores
    window: Scores
    questions: NDArray[np.bool_]
    """Whether it only asks."""


@dataclass(frozen=True, slots=True)
class SparseRetrieverScores:
    """Passages that fit, where they are few: scores by each way of looking, by id."""

    similarity: dict[int, float]
    terms: dict[int, float]
    window: dict[int, float]
    questions: set[int]


def parse_query(query: Query) -> ParsedQuery:
    """Return what to look for."""
    return ParsedQuery(
        list(dict.fromkeys(tokenizer.tokenize(query.text))),
        query.embedded,
        query.similarity_threshold,
    )
