"""Where embeddings are made: what `embed_with` and `providers:` come to."""

from collections.abc import Collection

from config.sections import Config
from providers import registry
from providers.config import PROVIDERS, KindName, ProviderConfig
from providers.embeddings.config import EmbedWith

EMBEDDING_KINDS: Collection[KindName] = ("cohere", "gemini", "openai")
"""The kinds of provider whose API has embeddings, all as OpenAI's."""

VOYAGE_URL = "https://api.voyageai.com/v1"
MAX_SECONDS = 60.0
"""A provider may take minutes over a reply, but not over a vector."""


def find(config: Config, name: str) -> ProviderConfig | None:
    """Return an entry under `providers:` if its API has embeddings.

    Of several endpoints, as if the first were the only one.
    """
    entry = config.get(PROVIDERS).get(name)
    if entry is None or entry.kind not in EMBEDDING_KINDS:
        return None
    return entry.each()[0]


def is_elsewhere(provider: ProviderConfig) -> bool:
    """Return whether a provider is at another address than its kind's own."""
    return registry.is_elsewhere(provider)


def of(asked: EmbedWith, entry: ProviderConfig | None) -> ProviderConfig:
    """Return where the calls go: the entry, with what `embed_with` has in its place."""
    if entry is None:
        entry = ProviderConfig(
            kind="openai", api_key=asked.api_key, base_url=asked.base_url
        )
    elif asked.base_url is not None:
        # The entry's secrets are not for another address.
        entry = entry.model_copy(
            update={"base_url": asked.base_url, "api_key": asked.api_key, "headers": {}}
        )
    elif asked.api_key is not None:
        entry = entry.model_copy(update={"api_key": asked.api_key})
    seconds = min(entry.timeouts.total_seconds, MAX_SECONDS)
    timeouts = entry.timeouts.model_copy(update={"total_seconds": seconds})
    return entry.model_copy(
        update={
            "base_url": entry.base_url or registry.KINDS[entry.kind].base_url,
            "timeouts": timeouts,
        }
    )
