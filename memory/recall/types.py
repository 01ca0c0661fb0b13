"""Value types of queries and search results."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np

Fusion = Literal["weighted", "rrf"]


@dataclass(frozen=True, slots=True)
class Embedded:
    """A text's vector and its embedder."""

    embedder: str
    vector: np.ndarray
    """float32, of unit length."""


EmbeddingResult = tuple[Embedded | None, str]
"""A text's vector, or None and the reason."""
UNEMBEDDED: EmbeddingResult = (None, "")


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    embedded: Embedded | None = None
    """None searches by words alone."""
    similarity_threshold: float = 0.0
    """The similarity below which passages count as unrelated."""
    fusion: Fusion = "weighted"


@dataclass(frozen=True, slots=True)
class SearchScore:
    """The scores of a search result, which is ranked by `total`."""

    total: float
    similarity: float | None = None
    """Cosine of the vectors; None if it is not among the nearest."""
    terms: float | None = None
    """The lexical score of the text; None if no word matches."""
    window: float | None = None
    """The lexical score of a message with its neighbours."""


@dataclass(slots=True)
class MessageHit:
    id: int
    thread: str
    """The thread's name; "" is the default one."""
    position: int
    role: str
    text: str
    agent: str
    importance: float
    created_at: datetime
    scope: str = ""
    """Where it is recalled."""
    score: SearchScore = SearchScore(0.0)
    """Set by the search."""
