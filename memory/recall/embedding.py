"""Vectors for what is stored, from code that is not async; a failure is an answer."""

from collections.abc import Iterator, Sequence

from core.errors import CoulisseError
from memory.types import Embedded
from providers import sync_bridge
from providers.embeddings import embedders
from providers.embeddings.base import Embedder
from providers.errors import RequestRefused

MAX_CHARS = 8_000
"""Of a text; what comes after hardly moves its vector, and costs as much."""
TIMEOUT_SECONDS = 30.0
REFUSED = "refused: "
"""Begins the error of a text that the embedder will not take another time either."""
MAX_REFUSALS = 3
"""In a row, before it is taken that the rest would be refused as well."""

Vector = tuple[Embedded | None, str]
"""A text's vector, or None and why."""


def embed_texts(
    embedder: Embedder, texts: Sequence[str]
) -> tuple[list[Embedded | None], list[str]]:
    """Return each text's vector or None, and why it has none.

    A text that is refused does not spoil the others; else all fail together. A text the
    embedder finds nothing in, such as an emoji to one that counts words, has no vector
    and no error.
    """
    if not texts:
        return [], []
    cut = [text[:MAX_CHARS] for text in texts]
    try:
        found = _call_embedder(embedder, cut)
    except RequestRefused:
        found = list(_embed_one_by_one(embedder, cut))
    return [vector for vector, _ in found], [error for _, error in found]


def _embed_one_by_one(embedder: Embedder, texts: Sequence[str]) -> Iterator[Vector]:
    refusals, error = 0, ""
    for text in texts:
        if refusals == MAX_REFUSALS:
            yield None, error
            continue
        try:
            yield from _call_embedder(embedder, [text])
            refusals = 0
        except RequestRefused as exc:
            refusals += 1
            error = f"{embedder.id}: {exc}"
            yield None, REFUSED + error


def _call_embedder(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Return vectors, or the same error for all; raises RequestRefused."""
    try:
        rows = sync_bridge.run_sync(
            embedders.embed_texts(embedder, texts), timeout_seconds=TIMEOUT_SECONDS
        )
    except TimeoutError:
        error = f"did not answer within {TIMEOUT_SECONDS:g} s"
    except RequestRefused:
        raise
    except CoulisseError as exc:
        error = str(exc)
    else:
        return [(Embedded(embedder.id, row) if row.any() else None, "") for row in rows]
    return [(None, f"{embedder.id}: {error}")] * len(texts)
