"""Vectors for what is stored, from code that is not async; a failure is an answer."""

from collections.abc import Sequence

from core.errors import CoulisseError
from memory.known import Embedded
from providers import blocking, embedders
from providers.embedders import Embedder

MAX_CHARS = 8_000
"""Of a text; what comes after hardly moves its vector, and costs as much."""
TIMEOUT_SECONDS = 30.0

Vectors = tuple[list[Embedded | None], list[str]]


def vectors(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return each text's vector or None, and why it has none.

    All fail together where the embedder does. A text it finds nothing in, such as an
    emoji to one that counts words, has no vector and no error.
    """
    if not texts:
        return [], []
    try:
        rows = blocking.wait(
            embedders.embed(embedder, [text[:MAX_CHARS] for text in texts]),
            timeout_seconds=TIMEOUT_SECONDS,
        )
    except TimeoutError:
        error = f"did not answer within {TIMEOUT_SECONDS:g} s"
    except CoulisseError as exc:
        error = exc.message
    else:
        found = [Embedded(embedder.id, row) if row.any() else None for row in rows]
        return found, [""] * len(texts)
    return [None] * len(texts), [f"{embedder.id}: {error}"] * len(texts)
