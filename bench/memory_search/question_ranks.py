"""Searches a filled memory for all questions, and ranks the answers."""

import time
from collections.abc import Iterator, Sequence

from bench.memory_search.dataset import Dataset, DatasetQuestion
from bench.memory_search.dataset_storage import StoredUser, store_dataset
from bench.memory_search.embeddings import DatasetVectors
from bench.memory_search.metrics import RETRIEVERS, QuestionResult
from memory.recall import search
from memory.recall.types import Query

DEPTH = 20
"""Number of results per question; answers after them count as not found."""


def rank_answers(
    data: Dataset, vectors: DatasetVectors, retrievers: Sequence[str] = RETRIEVERS
) -> Iterator[QuestionResult]:
    """Store a data set, and search for each question with each retriever."""
    for stored in store_dataset(data, vectors):
        # The first search of a user loads the cache.
        for question in stored.questions[:1]:
            _find(stored, _query(question, vectors, "weighted"))
        for retriever in retrievers:
            for question in stored.questions:
                yield _rank(stored, question, vectors, retriever)


def _rank(
    stored: StoredUser,
    question: DatasetQuestion,
    vectors: DatasetVectors,
    retriever: str,
) -> QuestionResult:
    query = _query(question, vectors, retriever)
    started_at = time.perf_counter()
    results = _find(stored, query)
    milliseconds = (time.perf_counter() - started_at) * 1e3
    names = [stored.names.get(result) for result in results]
    return QuestionResult(
        stored.corpus,
        vectors.embedder,
        retriever,
        question.kind,
        question.language,
        question.half,
        [names.index(one) + 1 if one in names else None for one in question.answers],
        names.count(None),
        milliseconds,
    )


def _find(stored: StoredUser, query: Query) -> list[object]:
    if stored.corpus == "facts":
        found = search.search_facts(stored.user_id, query, limit=DEPTH)
        return [one.fact.id for one in found]
    return [
        one.id for one in search.search_messages(stored.user_id, query, limit=DEPTH)
    ]


def _query(question: DatasetQuestion, vectors: DatasetVectors, retriever: str) -> Query:
    if retriever == "lexical":
        return Query(question.text)
    embedded = vectors.of_question(question.text)
    if retriever == "vector":
        return Query("", embedded, vectors.floor)
    return Query(
        question.text,
        embedded,
        vectors.floor,
        "rrf" if retriever == "rrf" else "weighted",
    )
