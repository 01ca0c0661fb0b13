"""Finding passages in PostgreSQL, which holds the index itself."""

from typing import Any

import numpy as np
from django.db import connection

from core.ids import UserId
from memory import vocabulary
from memory.known import Embedded
from memory.legs import DEPTH, Among, Legs, Question
from memory.vectors import write_vector

NEAREST = """
    SELECT p.id, 1 - (p.vector <=> %(vector)s::vector) AS score, p.is_question
    FROM memory_passage p {join}
    WHERE p.user_id = %(user_id)s AND p.embedder = %(embedder)s
        AND p.dimensions = %(dimensions)s AND {where}
        AND 1 - (p.vector <=> %(vector)s::vector) BETWEEN %(floor)s AND 2
    ORDER BY score DESC LIMIT %(depth)s
"""
WORDS = """
    SELECT p.id, ts_rank(p.{column}, %(words)s::tsquery) AS score, p.is_question
    FROM memory_passage p {join}
    WHERE p.user_id = %(user_id)s AND p.{column} @@ %(words)s::tsquery AND {where}
    ORDER BY score DESC LIMIT %(depth)s
"""
TINY = 1e-9
"""A cosine of zero is a text without a vector."""


class Index:
    """One user's passages."""

    def __init__(self, user_id: UserId) -> None:
        self._user_id = user_id

    def facts(self, question: Question, among: Among) -> Legs:
        """Return the passages of facts that fit."""
        join, where = "", "p.fact_id IS NOT NULL"
        values: dict[str, Any] = {}
        if among != Among():
            join = "JOIN memory_fact f ON f.id = p.fact_id"
            values = dict(among.given)
            where += "".join(f" AND f.{name} = %({name})s" for name in values)
        return self._legs(question, values, windows=False, join=join, where=where)

    def messages(self, question: Question, beyond: tuple[int, int] | None) -> Legs:
        """Return the passages of messages that fit, but of none from `beyond` on."""
        where = "p.message_id IS NOT NULL"
        values: dict[str, Any] = {}
        if beyond is not None:
            values["thread"], values["end"] = beyond
            where += " AND NOT (p.thread_id = %(thread)s AND p.position >= %(end)s)"
        return self._legs(question, values, windows=True, join="", where=where)

    def _legs(
        self, question: Question, values: dict[str, Any], *, windows: bool, **parts: str
    ) -> Legs:
        found = _Found()
        values |= {"user_id": self._user_id, "depth": DEPTH}
        if question.embedded is not None:
            asked = _vector_values(question.embedded, question.floor)
            found.add(0, NEAREST.format(**parts), values | asked)
        if question.terms:
            lexemes = vocabulary.lexemes(self._user_id, question.terms)
            words = values | {"words": " | ".join(lexemes)}
            found.add(1, WORDS.format(column="terms", **parts), words)
            if windows:
                found.add(2, WORDS.format(column="window_terms", **parts), words)
        return found.legs()


class _Found:
    """The scores of each way, by passage."""

    def __init__(self) -> None:
        self._scores: dict[int, list[float]] = {}
        self._questions: set[int] = set()

    def add(self, leg: int, query: str, values: dict[str, Any]) -> None:
        with connection.cursor() as cursor:
            cursor.execute(query, values)
            for number, score, is_question in cursor.fetchall():
                self._scores.setdefault(number, [0.0, 0.0, 0.0])[leg] = score
                if is_question:
                    self._questions.add(number)

    def legs(self) -> Legs:
        ids = sorted(self._scores)
        scores = np.array([self._scores[n] for n in ids], np.float64).reshape(-1, 3)
        questions = np.array([n in self._questions for n in ids], np.bool_)
        similarity, terms, window = scores.T
        return Legs(np.array(ids, np.int64), similarity, terms, window, questions)


def _vector_values(embedded: Embedded, floor: float) -> dict[str, Any]:
    return {
        "vector": write_vector(embedded.vector, "postgresql"),
        "embedder": embedded.embedder,
        "dimensions": len(embedded.vector),
        "floor": max(floor, TINY),
    }
