"""Scripted answers to requests for embeddings, as from OpenAI or Voyage."""

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from providers.embeddings import hash_embedder, openai, voyage
from testing.wires import ScriptedAnswer

DIMENSIONS = 1536
"""The default for unknown models."""


@dataclass
class ScriptedEmbedding(ScriptedAnswer):
    """The answer to one request: by default the vectors of the hash embedder."""

    dimensions: int | None = None
    """The dimensions, regardless of the request."""
    vector_count: int | None = None
    """The number of vectors, regardless of the request."""
    value: float | None = None
    """The value of every component, such as `nan`."""
    as_floats: bool = False
    """Write numbers even if the request asks for base64."""
    is_reversed: bool = False
    """Put the last vector first."""

    def body(self, request: Any) -> bytes:
        """Return the body of the answer to a request."""
        if self.raw is not None:
            return self.raw
        if self.status != 200 or self.error is not None:
            error = {"message": "the fake fails", "type": "fake_error"}
            return orjson.dumps({"error": {**error, **(self.error or {})}})
        return orjson.dumps(self._list(request))

    def _list(self, request: dict[str, Any]) -> dict[str, Any]:
        rows = self._rows(request)
        is_decimal = self.as_floats or request.get("encoding_format") != "base64"
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": row.tolist() if is_decimal else _base64(row),
            }
            for index, row in enumerate(rows)
        ]
        usage = {"total_tokens": sum(map(len, _texts(request)))}
        if "input_type" not in request:
            usage["prompt_tokens"] = usage["total_tokens"]
        return {
            "object": "list",
            "data": data[::-1] if self.is_reversed else data,
            "model": request["model"],
            "usage": usage,
        }

    def _rows(self, request: dict[str, Any]) -> NDArray[np.float32]:
        texts = _texts(request)
        if self.vector_count is not None:
            texts = (texts * (self.vector_count + 1))[: self.vector_count]
        rows = hash_embedder.embed_texts(texts, self.dimensions or _dimensions(request))
        if self.value is not None:
            rows[:] = self.value
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows


def _texts(request: dict[str, Any]) -> list[str]:
    texts = request["input"]
    return [texts] if isinstance(texts, str) else texts


def _dimensions(request: dict[str, Any]) -> int:
    dimensions = request.get("dimensions") or request.get("output_dimension")
    model = {**openai.MODELS, **voyage.MODELS}.get(request["model"])
    return dimensions or (DIMENSIONS if model is None else model.dimensions)


def _base64(row: NDArray[np.float32]) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()
