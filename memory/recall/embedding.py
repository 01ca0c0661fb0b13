"""Synchronous embedding of stored texts; failures are returned, not raised."""

from collections.abc import Iterator, Sequence

from core.errors import CoulisseError
from memory.recall.types import Embedded
from providers import sync_bridge
from providers.embeddings import embedders
from providers.embeddings.base import Embedder
from providers.errors import RequestRefused

MAX_CHARS = 8_000
"""Embedded characters of a text; the rest hardly changes the vector, and costs as
much."""
TIMEOUT_SECONDS = 30.0
REFUSED = "refused: "
"""The prefix of errors that a retry cannot fix: the embedder refuses the text."""
MAX_REFUSALS = 3
"""Consecutive refusals after which the remaining texts count as refused too."""

Vector = tuple[Embedded | None, str]
"""A text's vector, or None and the reason."""


def embed_texts(
    embedder: Embedder, texts: Sequence[str]
) -> tuple[list[Embedded | None], list[str]]:
    """Return each text's vector or None, and the reasons for missing ones.

    A refused text does not affect the others; other failures affect all texts. A text
    without content for the embedder, such as an emoji for one that counts words, has no
    vector and no error.
    """
    if not texts:
        return [], []
    truncated = [text[:MAX_CHARS] for text in texts]
    try:
        vectors = _call_embedder(embedder, truncated)
    except RequestRefused:
        vectors = list(_embed_one_by_one(embedder, truncated))
    return [vector for vector, _ in vectors], [error for _, error in vectors]


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
    """Return vectors, or the same error for all texts; raises RequestRefused."""
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
