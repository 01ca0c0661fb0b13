"""Types of queries and of retrievers' results."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.facts.types import AnyCategory, Status
from memory.recall.index import tokenizer
from memory.recall.types import Embedded, Query
from telemetry.types import RecallPath

Scores = NDArray[np.float32] | NDArray[np.float64]

MIN_SIMILARITY = 1e-9
"""A cosine of zero marks a text without a vector."""
RETRIEVAL_DEPTH = 100
"""Maximum passages per retriever."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    terms: list[str]
    """Without duplicates."""
    embedded: Embedded | None
    similarity_threshold: float

    @property
    def is_empty(self) -> bool:
        return not self.terms and self.embedded is None

    @property
    def path(self) -> RecallPath:
        """How the query searches."""
        if self.embedded is None:
            return "words" if self.terms else "none"
        return "both" if self.terms else "vectors"


@dataclass(frozen=True, slots=True)
class FactFilter:
    """A filter of facts; None matches any value."""

    category: AnyCategory | None = None
    status: Status | None = "active"
    scope: str | None = None

    @property
    def column_values(self) -> dict[str, str]:
        values = {
            "category": self.category,
            "status": self.status,
            "scope": self.scope,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RetrieverScores:
    """Passages with a score per retriever; zero means not found."""

    ids: NDArray[np.int64]
    """In ascending order."""
    similarity: Scores
    terms: Scores
    window: Scores
    questions: NDArray[np.bool_]
    """Whether the passage is only a question."""


@dataclass(frozen=True, slots=True)
class SparseRetrieverScores:
    """The scores of each retriever by id, for few passages."""

    similarity: dict[int, float]
    terms: dict[int, float]
    window: dict[int, float]
    questions: set[int]


def parse_query(query: Query) -> ParsedQuery:
    return ParsedQuery(
        list(dict.fromkeys(tokenizer.tokenize(query.text))),
        query.embedded,
        query.similarity_threshold,
    )
