"""Finding passages in what the process holds: the index of a server on SQLite."""

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from core.ids import UserId
from memory import scoring, shelf, vocabulary
from memory.corpus import Corpus, place_of
from memory.legs import DEPTH, Among, Legs, Question

Mask = NDArray[np.bool_]

CHOSEN = """
    SELECT p.id FROM memory_fact f JOIN memory_passage p ON p.fact_id = f.id
    WHERE f.user_id = %s
"""


class Index:
    """One user's passages as they are now; `anew` reads all of them again."""

    def __init__(self, user_id: UserId, *, anew: bool = False) -> None:
        self._user_id = user_id
        self._shelf = shelf.of(user_id, anew=anew)

    def facts(self, question: Question, among: Among) -> Legs:
        """Return the passages of facts that fit."""
        corpus = self._shelf.facts
        # A fact that is not active has no passage, unless it is held.
        mask = None if among == Among() else self._chosen(corpus, among)
        return _legs(corpus, question, mask, windows=False)

    def messages(self, question: Question, beyond: tuple[int, int] | None) -> Legs:
        """Return the passages of messages that fit, but of none from `beyond` on."""
        corpus = self._shelf.messages
        mask = None if beyond is None else _not_beyond(corpus, *beyond)
        return _legs(corpus, question, mask, windows=True)

    def _chosen(self, corpus: Corpus, among: Among) -> Mask:
        wanted = among.given
        query = CHOSEN + "".join(f" AND f.{name} = %s" for name in wanted)
        with connection.cursor() as cursor:
            cursor.execute(query, [self._user_id.hex, *wanted.values()])
            ids = [number for (number,) in cursor.fetchall()]
        return np.isin(corpus.ids, ids)


def _not_beyond(corpus: Corpus, thread_id: int, position: int) -> Mask:
    places = corpus.places
    start, end = place_of(thread_id, position), place_of(thread_id + 1, 0)
    return (places < start) | (places >= end)


def _legs(
    corpus: Corpus, question: Question, mask: Mask | None, *, windows: bool
) -> Legs:
    legs = Legs()
    if not corpus.living or question.is_empty:
        return legs
    if question.embedded is not None:
        cosines = scoring.similarities(corpus, question.embedded)
        if cosines is not None:
            fits = cosines >= max(question.floor, TINY)
            legs.similarity = _best(corpus, cosines, fits & corpus.alive, mask)
    if question.terms:
        hits = scoring.find(corpus, vocabulary.hashes(question.terms))
        if len(hits.term):
            scores = scoring.terms(corpus, hits)
            legs.terms = _best(corpus, scores, scores > 0, mask)
            if windows:
                scores = scoring.windows(corpus, hits)
                legs.window = _best(corpus, scores, scores > 0, mask)
    if windows:
        legs.questions = set(corpus.ids[corpus.questions].tolist())
    return legs


TINY = 1e-9
"""A cosine of zero is a text without a vector."""


def _best(
    corpus: Corpus, scores: scoring.Numbers, fits: Mask, mask: Mask | None
) -> dict[int, float]:
    if mask is not None:
        fits = fits & mask
    found = fits.nonzero()[0]
    if len(found) > DEPTH:
        found = found[np.argpartition(scores[found], -DEPTH)[-DEPTH:]]
    return dict(zip(corpus.ids[found].tolist(), scores[found].tolist(), strict=True))
