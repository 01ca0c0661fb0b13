"""Text to vectors: choose the embedder, and compute with it.

    embedder = embedders.choose_embedder(config, embed_with)
    rows = await embedders.embed_texts(embedder, ["She lives in Paris."])
    query_rows = await embedders.embed_texts(embedder, ["Where?"], query=True)

Vectors of different embedders cannot be compared: store `embedder.id` with each vector,
and compare only vectors with the same id.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from config.sections import Config
from config.validation.suggestions import did_you_mean
from providers import registry as provider_registry
from providers.config import PROVIDERS
from providers.embeddings import minilm, provider_access
from providers.embeddings.base import Embedder, EmbedderKind, EmbedderProblem, Rows
from providers.embeddings.config import EmbedderConfig
from providers.embeddings.hash_embedder import HashEmbedder
from providers.embeddings.minilm import MiniLMEmbedder
from providers.embeddings.openai import OpenAIEmbedder
from providers.embeddings.voyage import VoyageEmbedder
from providers.errors import EmbedderMisconfigured

EMBEDDERS: dict[str, EmbedderKind] = {
    "hash": HashEmbedder(),
    "local": MiniLMEmbedder(),
    "openai": OpenAIEmbedder(),
    "voyage": VoyageEmbedder(),
}
"""The kinds by name: to add one, write its module and add a line here."""

# JSON, tokenizers and databases reject these.
INVALID_CHARACTERS = re.compile("[\x00\ud800-\udfff]")


def choose_embedder(config: Config, embed_with: EmbedderConfig | None) -> Embedder:
    """Return the embedder that `embed_with` names, or else the best one configured.

    Raises EmbedderMisconfigured with what `problems` returns.
    """
    if embed_with is None:
        return _best_available(config)
    problems = find_problems(config, embed_with)
    if found := "; ".join(f"embed_with.{name}: {what}" for name, what in problems):
        raise EmbedderMisconfigured(detail=found)
    return build_embedder(config, embed_with)


def build_embedder(config: Config, embed_with: EmbedderConfig) -> Embedder:
    """Return the embedder that `embed_with` names, which has no problems.

    Only `dims` may be missing: the vectors then have the length that the API returns.
    """
    entry = provider_access.find_provider(config, embed_with.provider)
    name = embed_with.provider if entry is None else "openai"
    return EMBEDDERS[name].build(embed_with, entry)


def find_problems(
    config: Config, embed_with: EmbedderConfig | None
) -> Iterable[EmbedderProblem]:
    """Return the problems of `embed_with`, each with its field."""
    if embed_with is None:
        return ()
    entry = provider_access.find_provider(config, embed_with.provider)
    # An entry under `providers:` wins over the embedder of the same name.
    kind = EMBEDDERS.get(embed_with.provider if entry is None else "openai")
    if kind is None:
        return (("provider", _unknown_provider_message(config, embed_with.provider)),)
    return kind.problems(config, embed_with, entry)


def embedder_warning(embedder: Embedder) -> str | None:
    return kind_of(embedder).warning


async def embed_texts(
    embedder: Embedder, texts: Sequence[str], *, query: bool = False
) -> Rows:
    """Return a row of unit length for each text, in order.

    Blank texts get a row of zeros, and so do texts without words from `hash`. Texts
    that are too long lose their end. Set `query` for texts to search with. Raises the
    errors of `providers.errors`.
    """
    cleaned = [INVALID_CHARACTERS.sub(" ", text) for text in texts]
    filled = [number for number, text in enumerate(cleaned) if text.strip()]
    if not filled:
        return np.zeros((len(texts), embedder.dimensions), dtype=np.float32)
    embedded = await kind_of(embedder).embed(
        embedder, [cleaned[number] for number in filled], query=query
    )
    rows = np.zeros((len(texts), embedded.shape[1]), dtype=np.float32)
    rows[filled] = embedded
    return _normalize(rows)


def preload(embedder: Embedder) -> None:
    """Load data in advance of the first call: 0.3 s for `local`.

    Blocks: call it from a thread. Raises `EmbedderDown` if loading fails.
    """
    kind_of(embedder).load()


def kind_of(embedder: Embedder) -> EmbedderKind:
    """Return the kind whose name begins the embedder's id.

    Entries under `providers:` of another kind speak OpenAI's API.
    """
    return EMBEDDERS.get(embedder.id.partition(":")[0], EMBEDDERS["openai"])


def openai_entries(config: Config) -> Iterator[str]:
    """Yield the entries under `providers:` that are OpenAI itself, "openai" first."""
    entries = config.get(PROVIDERS)
    for name in sorted(entries, key=lambda name: name != "openai"):
        entry = entries[name]
        if entry.kind == "openai" and not provider_registry.has_custom_address(entry):
            yield name


def _best_available(config: Config) -> Embedder:
    for name in openai_entries(config):
        return build_embedder(config, EmbedderConfig(provider=name))
    name = "local" if minilm.is_available() else "hash"
    return EMBEDDERS[name].build(EmbedderConfig(provider=name), None)


def _unknown_provider_message(config: Config, name: str) -> str:
    entries = config.get(PROVIDERS)
    usable = {each for each in entries if provider_access.find_provider(config, each)}
    usable |= EMBEDDERS.keys()
    if name in entries:
        kind = entries[name].kind
        return (
            f"'{name}' is a provider of kind '{kind}', which has no embeddings; "
            f"use one of {', '.join(sorted(usable))}"
        )
    hint = did_you_mean(name, usable) or "."
    return (
        f"'{name}' is neither an embedder ({', '.join(sorted(EMBEDDERS))}) nor an "
        f"entry under providers: that has embeddings{hint}"
    )


def _normalize(rows: Rows) -> Rows:
    # In double precision: the square of a number that fits in a float may not.
    lengths = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1, keepdims=True))
    np.divide(rows, lengths, out=rows, where=lengths > 0, casting="same_kind")
    return rows
