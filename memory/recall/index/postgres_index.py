"""The search index on PostgreSQL.

The cost of a search must not grow with other users' rows, and the rows it reads must
not be scattered over a shared table. So words are stored as lexemes per user
(`memory.recall.index.term_encoding`). Vectors are first compared by their codes, one
bit per dimension, which an index stores next to the user's id; the best are then
compared exactly. The graph of `memory.recall.index.hnsw_index` is faster only for users
with very many passages.
"""

import time
from typing import Any

import numpy as np
from django.db import connection

from core.ids import UserId
from memory.models.fields import write_vector
from memory.recall.index import hnsw_index, term_encoding
from memory.recall.index.retrieval_types import (
    MIN_SIMILARITY,
    RETRIEVAL_DEPTH,
    FactFilter,
    ParsedQuery,
    RetrieverScores,
)
from memory.recall.types import Embedded
from telemetry.types import CorpusSize

RESCORED = 120
"""The number of nearest codes whose vectors are compared exactly."""
SPARSE_BIT_RATIO = 8
"""If fewer than 1/n of the bits are set, as in hashed words, shared bits are a better
measure than different ones. It is still a weak one, so more vectors are compared:"""
RESCORED_SPARSE = 500
MAX_COUNTED = 200_000
"""The limit for counting a user's passages."""
MAX_WORDS = 16
"""Words of a query that are searched: the longest, because they are the rarest."""
MAX_PASSAGES_PER_WORD = 300
"""Passages read per word: a frequent word is not selective, so not all are read."""
MAX_PAIRED_WORDS = 5
"""Words of which pairs in one passage are searched too, if words are frequent."""
COUNT_CACHE_SECONDS = 300.0
MAX_CACHED_COUNTS = 10_000
MIN_CACHED_COUNT = 1_000

COUNT_SQL = """
    SELECT count(*) FROM (
        SELECT FROM memory_passage p WHERE p.user_id = %(user_id)s AND {kind}
        LIMIT %(max_counted)s
    ) counted
"""
NEAREST_SQL = """
    WITH near AS MATERIALIZED (
        SELECT p.id FROM memory_passage p
        WHERE p.user_id = %(user_id)s AND p.embedder = %(embedder)s
            AND length(p.code) = %(dimensions)s AND {kind} {only}
        ORDER BY p.code {distance} %(code)s::varbit LIMIT %(compared)s
    )
    SELECT id, 1 - distance, is_question FROM (
        SELECT p.id, p.vector <=> %(vector)s::vector AS distance, p.is_question
        FROM near JOIN memory_passage p ON p.id = near.id
        WHERE p.user_id = %(user_id)s
        OFFSET 0
    ) compared
    WHERE distance <= %(max_distance)s ORDER BY distance LIMIT %(depth)s
"""
BM25_SQL = """
    WITH words AS MATERIALIZED (
        SELECT word, query FROM unnest(%(words)s::tsquery[])
            WITH ORDINALITY AS queries (query, word)
    ),
    -- Lexemes are specific to the user, so the limit drops only rows of this user; a
    -- condition on the user would make the planner read their whole index.
    lists AS MATERIALIZED (
        SELECT words.word, found.* FROM words CROSS JOIN LATERAL (
            SELECT p.id, p.user_id, p.{column} AS terms, p.is_question
            FROM memory_passage p
            WHERE p.{column} @@ words.query AND {plain_kind} {only} LIMIT %(each)s
        ) found
    ),
    weights AS MATERIALIZED (
        SELECT query, ln(1 + greatest(%(passages)s - found + 0.5, 0.5)
            / (found + 0.5))::float8 AS idf
        FROM (SELECT word, count(*) AS found FROM lists GROUP BY word) counted
        JOIN words USING (word) WHERE word <= %(single)s
    ),
    texts AS MATERIALIZED (
        SELECT *, length(terms) / (avg(length(terms)) OVER ())::float8 AS length FROM (
            SELECT DISTINCT ON (id) id, terms, is_question FROM lists
            WHERE user_id = %(user_id)s
        ) once
    )
    -- BM25, with ts_rank in place of a term's count.
    SELECT id, total * 2.2 / (1.3 + 0.9 * length) AS score, is_question
    FROM texts CROSS JOIN LATERAL (
        SELECT sum(idf * ts_rank(terms, query)) AS total FROM weights
    ) summed
    WHERE total > 0 ORDER BY score DESC LIMIT %(depth)s
"""
HAMMING, JACCARD = "<~>", "<%%>"
FACT_CONDITIONS = {"kind": "p.fact_id IS NOT NULL", "plain_kind": "p.thread_id IS NULL"}
MESSAGE_CONDITIONS = {
    "kind": "p.message_id IS NOT NULL",
    "plain_kind": "p.thread_id IS NOT NULL",
}
"""Conditions for the kind: one literally as in partial indexes, and one by a column
without an index. The latter is for queries that use another index: with the former, the
planner would also read all users' facts through the partial one."""
FACT_FILTER_SQL = (
    "AND p.fact_id IN (SELECT f.id FROM memory_fact f WHERE f.user_id = %(user_id)s"
)
BEFORE_CUTOFF_SQL = "AND NOT (p.thread_id = %(thread_id)s AND p.position >= %(end)s)"

_cached_counts: dict[tuple[UserId, str], tuple[float, int]] = {}
"""The approximate number of passages per user, and when it expires."""


class PostgresIndex:
    """One user's passages."""

    size: CorpusSize = "database"

    def __init__(self, user_id: UserId) -> None:
        self._user_id = user_id

    def facts(self, query: ParsedQuery, fact_filter: FactFilter) -> RetrieverScores:
        values = {"user_id": self._user_id, **fact_filter.column_values}
        condition = ""
        # Only active facts have a passage.
        if fact_filter != FactFilter():
            conditions = "".join(
                f" AND f.{name} = %({name})s" for name in fact_filter.column_values
            )
            condition = f"{FACT_FILTER_SQL}{conditions})"
        collector = _ScoreCollector(values, {**FACT_CONDITIONS, "only": condition})
        return collector.collect_scores(query, ["terms"])

    def messages(
        self, query: ParsedQuery, cutoff: tuple[int, int] | None, scope: str | None
    ) -> RetrieverScores:
        """Return the matching passages of messages, without those from `cutoff` on.

        With a scope, only those of it.
        """
        values: dict[str, Any] = {"user_id": self._user_id}
        condition = ""
        if scope is not None:
            values["scope"] = scope
            condition = "AND p.scope = %(scope)s "
        if cutoff is not None:
            values["thread_id"], values["end"] = cutoff
            condition += BEFORE_CUTOFF_SQL
        collector = _ScoreCollector(values, {**MESSAGE_CONDITIONS, "only": condition})
        return collector.collect_scores(query, ["terms", "window_terms"])


class _ScoreCollector:
    """The scores of each retriever, by passage."""

    def __init__(self, values: dict[str, Any], parts: dict[str, str]) -> None:
        self._values = {**values, "depth": RETRIEVAL_DEPTH}
        self._parts = parts
        self._scores: dict[int, list[float]] = {}
        self._questions: set[int] = set()

    def collect_scores(self, query: ParsedQuery, columns: list[str]) -> RetrieverScores:
        """Return the passages found by vectors, and by the words in these columns."""
        count = self._count()
        if query.embedded is not None and count:
            self._add_similarities(query.embedded, query.similarity_threshold, count)
        if query.terms and count:
            for index, column in enumerate(columns, start=1):
                self._add_bm25(index, column, query.terms, count)
        return self._to_arrays()

    def _count(self) -> int:
        key = self._values["user_id"], self._parts["kind"]
        now = time.monotonic()
        until, count = _cached_counts.get(key, (0.0, 0))
        if until > now:
            return count
        values = {**self._values, "max_counted": MAX_COUNTED}
        ((count,),) = _fetch_rows(COUNT_SQL.format(**self._parts), values)
        # Small counts are fast to get, and grow soon.
        if count >= MIN_CACHED_COUNT:
            if len(_cached_counts) >= MAX_CACHED_COUNTS:
                _cached_counts.clear()
            _cached_counts[key] = now + COUNT_CACHE_SECONDS, count
        return int(count)

    def _add_similarities(
        self, embedded: Embedded, threshold: float, count: int
    ) -> None:
        bits = embedded.vector > 0
        is_sparse = np.count_nonzero(bits) * SPARSE_BIT_RATIO < len(bits)
        values = {
            "vector": write_vector(embedded.vector, "postgresql"),
            "code": "".join(np.where(bits, "1", "0").tolist()),
            "embedder": embedded.embedder,
            "dimensions": len(bits),
            "max_distance": 1 - max(threshold, MIN_SIMILARITY),
            "compared": RESCORED_SPARSE if is_sparse else RESCORED,
        }
        query = NEAREST_SQL.replace("{distance}", JACCARD if is_sparse else HAMMING)
        if hnsw_index.is_faster(embedded.embedder, count):
            query = hnsw_index.nearest_sql(len(embedded.vector))
        self._add_scores(0, query, values)

    def _add_bm25(self, index: int, column: str, terms: list[str], count: int) -> None:
        terms_by_length = sorted(terms, key=len, reverse=True)[:MAX_WORDS]
        words = term_encoding.user_lexemes(self._values["user_id"], terms_by_length)
        each = MAX_PASSAGES_PER_WORD // len(words)
        values = {"single": len(words), "each": each, "passages": count}
        if count > each:
            words += _pair_queries(words[:MAX_PAIRED_WORDS])
        query = BM25_SQL.replace("{column}", column)
        self._add_scores(index, query, {**values, "words": words})

    def _add_scores(self, index: int, query: str, values: dict[str, Any]) -> None:
        query = query.format(**self._parts)
        for number, score, is_question in _fetch_rows(
            query, {**self._values, **values}
        ):
            self._scores.setdefault(number, [0.0, 0.0, 0.0])[index] = score
            if is_question:
                self._questions.add(number)

    def _to_arrays(self) -> RetrieverScores:
        ids = sorted(self._scores)
        scores = np.array([self._scores[n] for n in ids], np.float64).reshape(-1, 3)
        similarity, terms, window = scores.T
        questions = np.array([n in self._questions for n in ids], np.bool_)
        return RetrieverScores(
            np.array(ids, np.int64), similarity, terms, window, questions
        )


def _pair_queries(words: list[str]) -> list[str]:
    """Return queries for passages with two of the words; none for fewer words."""
    pairs = [
        f"({one} & {other})"
        for index, one in enumerate(words)
        for other in words[index + 1 :]
    ]
    return [" | ".join(pairs)] if pairs else []


def _fetch_rows(query: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        # The settings precede the query, each with its own result.
        while cursor.description is None and cursor.nextset():
            pass
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
