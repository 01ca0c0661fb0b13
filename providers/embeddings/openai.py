"""Embeddings of OpenAI and of compatible servers."""

from collections.abc import Iterator, Mapping

from config.sections import Config
from providers import registry
from providers.config import PROVIDERS, ProviderConfig
from providers.embeddings import api_client, api_embedder, provider_access
from providers.embeddings.api_embedder import ApiEmbedder
from providers.embeddings.base import (
    Embedder,
    EmbedderProblem,
    EmbeddingModel,
    model_problems,
)
from providers.embeddings.config import EmbedderConfig

DEFAULT_MODEL = "text-embedding-3-small"

# https://platform.openai.com/docs/guides/embeddings
MODELS: Mapping[str, EmbeddingModel] = {
    "text-embedding-3-small": EmbeddingModel(1536, range(1, 1537)),
    "text-embedding-3-large": EmbeddingModel(3072, range(1, 3073)),
    "text-embedding-ada-002": EmbeddingModel(1536),
}


class OpenAIEmbedder(ApiEmbedder):
    """OpenAI, or the entry under `providers:` that `embed_with` names."""

    def problems(
        self, config: Config, embed_with: EmbedderConfig, entry: ProviderConfig | None
    ) -> Iterator[EmbedderProblem]:
        if entry is None and embed_with.api_key is None and embed_with.base_url is None:
            clash = config.get(PROVIDERS).get("openai")
            yield (
                "provider",
                "'openai' needs an api_key here or under providers.openai, for example "
                "${OPENAI_API_KEY}"
                + (f"; providers.openai is of kind '{clash.kind}'" if clash else ""),
            )
            return
        provider = provider_access.resolve_provider(embed_with, entry)
        is_openai = provider.kind == "openai"
        yield from model_problems(
            embed_with,
            MODELS if is_openai else {},
            default=DEFAULT_MODEL if is_openai else None,
            is_other_server=not is_openai or registry.has_custom_address(provider),
        )

    def build(
        self, embed_with: EmbedderConfig, entry: ProviderConfig | None
    ) -> Embedder:
        """Return the embedder; its id begins with the kind of the provider."""
        provider = provider_access.resolve_provider(embed_with, entry)
        is_other_server = registry.has_custom_address(provider)
        is_openai = provider.kind == "openai"
        return api_embedder.build(
            embed_with,
            provider,
            provider.kind,
            model=embed_with.model or DEFAULT_MODEL,
            models=MODELS if is_openai else {},
            dims_field="dimensions",
            is_other_server=is_other_server,
            limits=api_client.OPENAI_LIMITS
            if is_openai and not is_other_server
            else api_client.COMPATIBLE_LIMITS,
        )
