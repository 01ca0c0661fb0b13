"""How the fake provider answers for vectors, as OpenAI or as Voyage does."""

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from providers.embeddings import hash_embedder, openai, voyage
from testing.wires import ScriptedAnswer

DIMENSIONS = 1536
"""Those of models nobody knows, unless the request asks for others."""


@dataclass
class ScriptedEmbedding(ScriptedAnswer):
    """What to say to one request for vectors: by default those of the hash embedder."""

    dimensions: int | None = None
    """How long the vectors are, whatever was asked for."""
    vector_count: int | None = None
    """How many there are, whatever was asked for."""
    value: float | None = None
    """What each number of them is: `nan`, say."""
    as_floats: bool = False
    """Write numbers, though base64 was asked for."""
    is_reversed: bool = False
    """Put the last vector first."""

    def body(self, asked: Any) -> bytes:
        """Return the body of the answer to a request's body."""
        if self.raw is not None:
            return self.raw
        if self.status != 200 or self.error is not None:
            error = {"message": "the fake fails", "type": "fake_error"}
            return orjson.dumps({"error": {**error, **(self.error or {})}})
        return orjson.dumps(self._list(asked))

    def _list(self, asked: dict[str, Any]) -> dict[str, Any]:
        rows = self._rows(asked)
        plain = self.as_floats or asked.get("encoding_format") != "base64"
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": row.tolist() if plain else _base64(row),
            }
            for index, row in enumerate(rows)
        ]
        usage = {"total_tokens": sum(map(len, _texts(asked)))}
        if "input_type" not in asked:
            usage["prompt_tokens"] = usage["total_tokens"]
        return {
            "object": "list",
            "data": data[::-1] if self.is_reversed else data,
            "model": asked["model"],
            "usage": usage,
        }

    def _rows(self, asked: dict[str, Any]) -> NDArray[np.float32]:
        texts = _texts(asked)
        if self.vector_count is not None:
            texts = (texts * (self.vector_count + 1))[: self.vector_count]
        rows = hash_embedder.embed_texts(texts, self.dimensions or _dimensions(asked))
        if self.value is not None:
            rows[:] = self.value
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows


def _texts(asked: dict[str, Any]) -> list[str]:
    given = asked["input"]
    return [given] if isinstance(given, str) else given


def _dimensions(asked: dict[str, Any]) -> int:
    chosen = asked.get("dimensions") or asked.get("output_dimension")
    known = {**openai.MODELS, **voyage.MODELS}.get(asked["model"])
    return chosen or (DIMENSIONS if known is None else known.dimensions)


def _base64(row: NDArray[np.float32]) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()
