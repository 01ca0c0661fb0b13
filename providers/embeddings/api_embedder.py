"""The base class of embedders that call an API."""

import hashlib
from collections.abc import Mapping
from typing import Any

from providers.config import ProviderConfig
from providers.embeddings import api_client
from providers.embeddings.base import (
    BatchLimits,
    Embedder,
    EmbedderKind,
    EmbeddingApi,
    EmbeddingModel,
    Rows,
    resolve_threshold,
)
from providers.embeddings.config import EmbedderConfig
from providers.resilience.error_mapping import ProviderSource

SIMILARITY_THRESHOLD = 0.2


class ApiEmbedder(EmbedderKind):
    """An embedder behind an API like OpenAI's `/embeddings`."""

    async def embed(self, embedder: Embedder, texts: list[str], *, query: bool) -> Rows:
        if embedder.api is None:
            raise ValueError(f"the embedder {embedder.id} has no API")
        return await api_client.embed_texts(embedder.api, texts, query=query)


def build(
    embed_with: EmbedderConfig,
    provider: ProviderConfig,
    kind: str,
    *,
    model: str,
    models: Mapping[str, EmbeddingModel],
    dims_field: str,
    is_other_server: bool,
    limits: BatchLimits,
    input_types: bool = False,
) -> Embedder:
    """Return the embedder for a model of an API.

    `dims_field` is the request field that asks for shorter vectors.
    """
    known_model = models.get(model)
    dimensions = embed_with.dims or (known_model.dimensions if known_model else 0)
    # Servers refuse the field for a model whose length is fixed.
    is_chosen = known_model is not None and dimensions != known_model.dimensions
    extra: dict[str, Any] = {dims_field: dimensions} if is_chosen else {}
    has_own_access = embed_with.api_key is not None or embed_with.base_url is not None
    parts = [kind, model, str(dimensions)]
    if is_other_server:
        address = (provider.base_url or "").encode()
        parts.append(hashlib.blake2b(address, digest_size=4).hexdigest())
    return Embedder(
        ":".join(parts),
        dimensions,
        resolve_threshold(embed_with, SIMILARITY_THRESHOLD),
        api=EmbeddingApi(
            ProviderSource(
                embed_with.provider,
                provider,
                model,
                "embed_with" if has_own_access else f"providers.{embed_with.provider}",
            ),
            dimensions,
            limits,
            extra=extra,
            sends_input_type=input_types,
        ),
    )
