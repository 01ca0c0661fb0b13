"""The entry under `providers:` that `embed_with` uses, and the access to its API."""

from collections.abc import Collection

from config.sections import Config
from providers import registry
from providers.config import PROVIDERS, KindName, ProviderConfig
from providers.embeddings.config import EmbedderConfig

EMBEDDING_KINDS: Collection[KindName] = ("cohere", "gemini", "openai")
"""The kinds of provider with an OpenAI-compatible embeddings API."""

MAX_SECONDS = 60.0
"""A reply may take minutes, but an embedding may not."""


def find_provider(config: Config, name: str) -> ProviderConfig | None:
    """Return an entry under `providers:` if its API has embeddings.

    An entry with several endpoints is reduced to the first.
    """
    entry = config.get(PROVIDERS).get(name)
    if entry is None or entry.kind not in EMBEDDING_KINDS:
        return None
    return entry.per_endpoint()[0]


def resolve_provider(
    embed_with: EmbedderConfig, entry: ProviderConfig | None
) -> ProviderConfig:
    """Return the access to the API: the entry, overridden by `embed_with`."""
    if entry is None:
        entry = ProviderConfig(
            kind="openai", api_key=embed_with.api_key, base_url=embed_with.base_url
        )
    elif embed_with.base_url is not None:
        # The entry's secrets must not go to another address.
        entry = entry.model_copy(
            update={
                "base_url": embed_with.base_url,
                "api_key": embed_with.api_key,
                "headers": {},
            }
        )
    elif embed_with.api_key is not None:
        entry = entry.model_copy(update={"api_key": embed_with.api_key})
    seconds = min(entry.timeouts.total_seconds, MAX_SECONDS)
    timeouts = entry.timeouts.model_copy(update={"total_seconds": seconds})
    return entry.model_copy(
        update={
            "base_url": entry.base_url or registry.KINDS[entry.kind].base_url,
            "timeouts": timeouts,
        }
    )
