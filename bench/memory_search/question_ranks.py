"""Ask a filled memory everything, and note at which place each answer came."""

import time
from collections.abc import Iterator, Sequence

from bench.memory_search.dataset import Dataset, DatasetQuestion
from bench.memory_search.dataset_storage import StoredUser, store_dataset
from bench.memory_search.embeddings import DatasetVectors
from bench.memory_search.metrics import LEGS, QuestionResult
from memory.recall import search
from memory.recall.types import Query

DEPTH = 20
"""Found of each question; what comes later counts as not found."""


def ask(
    wanted: Dataset, vectors: DatasetVectors, legs: Sequence[str] = LEGS
) -> Iterator[QuestionResult]:
    """Fill the memory with a dataset and ask each question of each leg."""
    for place in store_dataset(wanted, vectors):
        # The first search of a user loads what the others find loaded.
        for question in place.questions[:1]:
            _find(place, _query(question, vectors, "weighted"))
        for leg in legs:
            for question in place.questions:
                yield _ask(place, question, vectors, leg)


def _ask(
    place: StoredUser, question: DatasetQuestion, vectors: DatasetVectors, leg: str
) -> QuestionResult:
    query = _query(question, vectors, leg)
    began = time.perf_counter()
    found = _find(place, query)
    milliseconds = (time.perf_counter() - began) * 1e3
    names = [place.names.get(one) for one in found]
    return QuestionResult(
        place.holds,
        vectors.embedder,
        leg,
        question.kind,
        question.language,
        question.half,
        [names.index(one) + 1 if one in names else None for one in question.answers],
        names.count(None),
        milliseconds,
    )


def _find(place: StoredUser, query: Query) -> list[object]:
    if place.holds == "facts":
        found = search.search_facts(place.user_id, query, limit=DEPTH)
        return [one.fact.id for one in found]
    return [one.id for one in search.search_messages(place.user_id, query, limit=DEPTH)]


def _query(question: DatasetQuestion, vectors: DatasetVectors, leg: str) -> Query:
    if leg == "lexical":
        return Query(question.text)
    embedded = vectors.asking(question.text)
    if leg == "vector":
        return Query("", embedded, vectors.floor)
    return Query(
        question.text, embedded, vectors.floor, "rrf" if leg == "rrf" else "weighted"
    )
