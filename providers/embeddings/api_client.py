"""Embeddings from an API: OpenAI's, a compatible one, or Voyage's."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from core.trace import Attempt
from providers import client
from providers.embeddings import usage_collector
from providers.embeddings.base import BatchLimits, EmbeddingApi, Rows
from providers.errors import RequestRefused
from providers.resilience import error_mapping
from providers.resilience.error_mapping import ProviderSource
from providers.wires import usage_parsing

# 2,048 texts, 300,000 tokens, 8,191 a text; smaller batches fail and retry faster.
OPENAI_LIMITS = BatchLimits(256, 300_000, 2 * 8191, 8191)
# 1,000 texts, 120,000 tokens; longer texts than 32,000 tokens it cuts itself.
VOYAGE_LIMITS = BatchLimits(256, 120_000, 32_000, 16_000)
# Self-hosted servers often limit batches to 32 texts, and their models to 512 tokens.
COMPATIBLE_LIMITS = BatchLimits(32, 100_000, 2 * 8191, 1500)


async def embed_texts(api: EmbeddingApi, texts: Sequence[str], *, query: bool) -> Rows:
    """Return a row for each text, not normalized; no text may be blank."""
    limits = api.limits
    encoded = [_truncate(text, limits.text_bytes) for text in texts]
    parts: list[Rows] = []
    for batch in _split_batches(encoded, limits):
        parts.append(await _embed_batch(api, batch, query=query))
        # If the length was unknown, the first vectors determine it.
        api = replace(api, dimensions=parts[0].shape[1])
    return np.concatenate(parts)


def _truncate(text: str, size: int) -> bytes:
    # A character takes at least one byte.
    return text[:size].encode()[:size]


def _split_batches(
    texts: Sequence[bytes], limits: BatchLimits
) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for text in texts:
        full = len(batch) == limits.batch_texts
        if batch and (full or size + len(text) > limits.batch_bytes):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    yield batch


async def _embed_batch(api: EmbeddingApi, batch: list[bytes], *, query: bool) -> Rows:
    safe = api.limits.safe_text_bytes
    try:
        return await _request_batch(api, batch, query=query)
    except RequestRefused:
        if max(map(len, batch)) <= safe:
            raise
    # Some texts, such as random letters, have more tokens than one per two bytes.
    return await _request_batch(api, [text[:safe] for text in batch], query=query)


async def _request_batch(api: EmbeddingApi, batch: list[bytes], *, query: bool) -> Rows:
    """Return the vectors of a batch, and record what the API bills for them."""
    source = api.source
    # A cut may split a character.
    texts = [text.decode(errors="ignore") for text in batch]
    attempts: list[Attempt] = []
    reported: int | None = None
    try:
        rows, reported = await client.post_json(
            source,
            "/embeddings",
            _request_body(api, texts, query=query),
            partial(_parse_response, count=len(batch), dimensions=api.dimensions),
            attempts=attempts,
        )
    finally:
        # The API bills the call even if the caller has left or timed out.
        if attempts and attempts[-1].is_billed:
            usage_collector.record_call(source, texts, reported)
    return rows


def _request_body(
    api: EmbeddingApi, texts: list[str], *, query: bool
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": api.source.model,
        "input": texts,
        # Four times shorter than decimals, and no numbers to parse.
        "encoding_format": "base64",
        **api.extra,
    }
    if api.sends_input_type:
        body["input_type"] = "query" if query else "document"
    return body


def _parse_response(
    payload: Any, source: ProviderSource, *, count: int, dimensions: int
) -> tuple[Rows, int | None]:
    """Return the vectors, and the API's token count."""
    if payload.get("error"):
        raise error_mapping.from_error_object(source, payload)
    vectors = payload["data"]
    if len(vectors) != count:
        problem = f"has {len(vectors)} vectors for {count} texts"
        raise error_mapping.malformed_reply(source, problem)
    indexes = [item.get("index", number) for number, item in enumerate(vectors)]
    if sorted(indexes) != list(range(count)):
        raise error_mapping.malformed_reply(source, "has vectors without a valid index")
    dimensions = dimensions or _parse_vector(vectors[0]["embedding"]).size
    rows = np.zeros((count, dimensions), dtype=np.float32)
    for index, item in zip(indexes, vectors, strict=True):
        vector = _parse_vector(item["embedding"])
        if vector.shape != (dimensions,):
            raise error_mapping.malformed_reply(
                source,
                f"has vectors of {vector.size} dimensions, not {dimensions}",
                detail="check the model and embed_with.dims",
            )
        rows[index] = vector
    if not np.isfinite(rows).all():
        problem = "has vectors with non-finite numbers"
        raise error_mapping.malformed_reply(source, problem)
    return rows, _billed_tokens(payload)


def _billed_tokens(payload: Any) -> int | None:
    """Return the token count: OpenAI sends both fields, Voyage only the total."""
    usage = payload.get("usage")
    if not isinstance(usage, dict):
        return None
    counts = (usage.get(name) for name in ("total_tokens", "prompt_tokens"))
    valid = (n for n in map(usage_parsing.parse_count, counts) if n is not None)
    return next(valid, None)


def _parse_vector(value: Any) -> Rows:
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    # Values out of range become infinite, and are rejected as such.
    with np.errstate(over="ignore"):
        return np.asarray(value, dtype=np.float32)
