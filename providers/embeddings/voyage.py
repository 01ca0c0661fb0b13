"""Embeddings of Voyage AI."""

from collections.abc import Iterator, Mapping

from config.sections import Config
from providers.config import ProviderConfig
from providers.embeddings import api_client, api_embedder, provider_access
from providers.embeddings.api_embedder import ApiEmbedder
from providers.embeddings.base import (
    Embedder,
    EmbedderProblem,
    EmbeddingModel,
    model_problems,
)
from providers.embeddings.config import EmbedderConfig

URL = "https://api.voyageai.com/v1"
DEFAULT_MODEL = "voyage-3.5"

# https://docs.voyageai.com/docs/embeddings
_CHOICES = (256, 512, 1024, 2048)
MODELS: Mapping[str, EmbeddingModel] = {
    "voyage-3.5": EmbeddingModel(1024, _CHOICES),
    "voyage-3-large": EmbeddingModel(1024, _CHOICES),
    "voyage-3.5-lite": EmbeddingModel(1024, _CHOICES),
    "voyage-code-3": EmbeddingModel(1024, _CHOICES),
    "voyage-finance-2": EmbeddingModel(1024),
    "voyage-law-2": EmbeddingModel(1024),
    "voyage-code-2": EmbeddingModel(1536),
}


class VoyageEmbedder(ApiEmbedder):
    """Voyage, whose API matches OpenAI's in all parts that the client uses."""

    def problems(
        self, config: Config, embed_with: EmbedderConfig, entry: ProviderConfig | None
    ) -> Iterator[EmbedderProblem]:
        if embed_with.api_key is None:
            yield "api_key", "is required for 'voyage', for example ${VOYAGE_API_KEY}"
        yield from model_problems(
            embed_with,
            MODELS,
            default=DEFAULT_MODEL,
            is_other_server=embed_with.base_url not in (None, URL),
        )

    def build(
        self, embed_with: EmbedderConfig, entry: ProviderConfig | None
    ) -> Embedder:
        """Return the embedder; its requests state which texts are queries."""
        address = embed_with.base_url or URL
        provider = provider_access.resolve_provider(
            embed_with.model_copy(update={"base_url": address}), None
        )
        return api_embedder.build(
            embed_with,
            provider,
            "voyage",
            model=embed_with.model or DEFAULT_MODEL,
            models=MODELS,
            dims_field="output_dimension",
            is_other_server=address != URL,
            limits=api_client.VOYAGE_LIMITS,
            input_types=True,
        )
