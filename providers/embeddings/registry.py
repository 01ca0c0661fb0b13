"""The kinds of embedder by name: to add one, write its module and add a line here."""

from collections.abc import Mapping

from providers.embeddings.base import Embedder, EmbedderKind
from providers.embeddings.hash_embedder import HashEmbedder
from providers.embeddings.minilm import MiniLMEmbedder
from providers.embeddings.openai import OpenAIEmbedder
from providers.embeddings.voyage import VoyageEmbedder

EMBEDDERS: Mapping[str, EmbedderKind] = {
    "hash": HashEmbedder(),
    "local": MiniLMEmbedder(),
    "openai": OpenAIEmbedder(),
    "voyage": VoyageEmbedder(),
}


def kind_of(embedder: Embedder) -> EmbedderKind:
    """Return the kind whose name begins the embedder's id.

    Entries under `providers:` of another kind speak OpenAI's API.
    """
    return EMBEDDERS.get(embedder.id.partition(":")[0], EMBEDDERS["openai"])
