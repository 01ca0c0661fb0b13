"""Text to vectors: which embedder, and its vectors.

    embedder = embedders.choose(config, asked)      # asked: the YAML's embed_with:
    rows = await embedders.embed(embedder, ["She lives in Paris."])
    asked = await embedders.embed(embedder, ["Where?"], query=True)

Vectors of two embedders have nothing to do with each other: keep `embedder.id` with
each, and compare only those of the same.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from config.sections import Config
from providers.config import PROVIDERS, ProviderConfig
from providers.embeddings import (
    api_client,
    hash_embedder,
    minilm,
    model_catalog,
    provider_resolution,
    validation,
)
from providers.embeddings.api_client import Limits, Service
from providers.embeddings.config import EmbedWith
from providers.embeddings.model_catalog import EmbeddingModel
from providers.embeddings.validation import Fault
from providers.errors import EmbedderMisconfigured
from providers.resilience.error_mapping import Source

HASH_FLOOR = 0.05
LOCAL_FLOOR = 0.1
"""Below it nothing is related; from 0.2 on some of what is related is lost, too."""
MODEL_FLOOR = 0.2

ANY_LANGUAGE = "many"
ENGLISH = "English"
WORDS = "any, by its words"

# What JSON, tokenizers and databases would stumble over.
UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
# More than this is hashed on a thread: it takes milliseconds.
MAX_INLINE_CHARS = 5_000

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Embedder:
    """Something that turns text into vectors."""

    id: str
    """Which space its vectors are in; the same in every process and version."""
    dimensions: int
    floor: float
    """The cosine similarity below which two texts are not related."""
    languages: str = ANY_LANGUAGE
    service: Service | None = field(default=None, repr=False, compare=False)
    """The API that makes them; None for the two that need no network."""

    @property
    def is_offline(self) -> bool:
        """Return whether no text leaves the machine."""
        return self.service is None


# Choosing one.


def choose(config: Config, asked: EmbedWith | None) -> Embedder:
    """Return the embedder that is asked for, or else the best that is configured.

    Raises EmbedderMisconfigured with what `problems` says.
    """
    if asked is None:
        return _best(config)
    faults = [f"embed_with.{name}: {what}" for name, what in problems(config, asked)]
    if faults:
        raise EmbedderMisconfigured(detail="; ".join(faults))
    entry = provider_resolution.find(config, asked.provider)
    if entry is not None or asked.provider == "openai":
        return _openai(asked, entry)
    return _voyage(asked) if asked.provider == "voyage" else _offline(asked)


def problems(config: Config, asked: EmbedWith | None) -> Iterable[Fault]:
    """Return what is wrong with `embed_with`, each with the field it is in."""
    return () if asked is None else validation.find(config, asked)


def warning(embedder: Embedder) -> str | None:
    """Return what to tell the operator about an embedder, if anything."""
    if embedder.id.startswith("hash:"):
        return (
            "the embedder 'hash' has no semantic understanding: it finds facts by "
            "their words alone. Set embed_with to local, openai or voyage"
        )
    return None


def _best(config: Config) -> Embedder:
    entries = config.get(PROVIDERS)
    # The entry of that name first.
    for name in sorted(entries, key=lambda name: name != "openai"):
        entry = entries[name]
        if entry.kind == "openai" and not provider_resolution.is_elsewhere(entry):
            return _openai(EmbedWith(provider=name), entry.each()[0])
    return _offline(EmbedWith(provider="local" if minilm.available() else "hash"))


# Making the one chosen, of which all is known to be well.


def _offline(asked: EmbedWith) -> Embedder:
    if asked.provider == "local":
        name = f"local:{minilm.NAME}:{minilm.DIMENSIONS}"
        return Embedder(name, minilm.DIMENSIONS, _floor(asked, LOCAL_FLOOR), ENGLISH)
    dimensions = asked.dims or hash_embedder.DEFAULT_DIMENSIONS
    floor = _floor(asked, HASH_FLOOR)
    return Embedder(f"hash:{dimensions}", dimensions, floor, WORDS)


def _floor(asked: EmbedWith, own: float) -> float:
    return own if asked.floor is None else asked.floor


def _openai(asked: EmbedWith, entry: ProviderConfig | None) -> Embedder:
    provider = provider_resolution.of(asked, entry)
    elsewhere = provider_resolution.is_elsewhere(provider)
    is_openai = provider.kind == "openai"
    return _remote(
        asked,
        provider,
        provider.kind,
        model=asked.model or model_catalog.DEFAULT_OPENAI,
        known=model_catalog.OPENAI if is_openai else {},
        dims_as="dimensions",
        elsewhere=elsewhere,
        limits=api_client.OPENAI_LIMITS
        if is_openai and not elsewhere
        else api_client.COMPATIBLE_LIMITS,
    )


def _voyage(asked: EmbedWith) -> Embedder:
    address = asked.base_url or provider_resolution.VOYAGE_URL
    # Its API is like OpenAI's in all the client knows of.
    provider = provider_resolution.of(
        asked.model_copy(update={"base_url": address}), None
    )
    return _remote(
        asked,
        provider,
        "voyage",
        model=asked.model or model_catalog.DEFAULT_VOYAGE,
        known=model_catalog.VOYAGE,
        dims_as="output_dimension",
        elsewhere=address != provider_resolution.VOYAGE_URL,
        limits=api_client.VOYAGE_LIMITS,
    )


def _remote(
    asked: EmbedWith,
    provider: ProviderConfig,
    api: str,
    *,
    model: str,
    known: Mapping[str, EmbeddingModel],
    dims_as: str,
    elsewhere: bool,
    limits: Limits,
) -> Embedder:
    own = known.get(model)
    dimensions = asked.dims or (own.dimensions if own else 0)
    # Servers refuse to be asked for what they could not change.
    chosen = own is not None and dimensions != own.dimensions
    given_here = asked.api_key is not None or asked.base_url is not None
    parts = [api, model, str(dimensions)]
    if elsewhere:
        parts.append(_digest(provider.base_url or ""))
    return Embedder(
        ":".join(parts),
        dimensions,
        _floor(asked, MODEL_FLOOR),
        service=Service(
            Source(
                asked.provider,
                provider,
                model,
                "embed_with" if given_here else f"providers.{asked.provider}",
            ),
            dimensions,
            limits,
            extra={dims_as: dimensions} if chosen else {},
            input_types=api == "voyage",
        ),
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


# Using it.


async def embed(
    embedder: Embedder, texts: Sequence[str], *, query: bool = False
) -> Rows:
    """Return a row of unit length for each text, in order.

    A text with nothing in it gets a row of zeros, and so does one without words from
    `hash`. Texts that are too long lose their end. Set `query` for what is searched
    with rather than searched. Raises what `providers.errors` lists.
    """
    rows = np.zeros((len(texts), embedder.dimensions), dtype=np.float32)
    cleaned = [UNWRITABLE.sub(" ", text) for text in texts]
    filled = [number for number, text in enumerate(cleaned) if text.strip()]
    if filled:
        kept = [cleaned[number] for number in filled]
        rows[filled] = await _vectors(embedder, kept, query=query)
    return _normalised(rows)


def warm(embedder: Embedder) -> None:
    """Load ahead what the first call would have to wait for: 0.3 s for `local`.

    Blocks: call it from a thread. Raises EmbedderDown if it cannot be loaded.
    """
    if embedder.id.startswith("local:") and embedder.service is None:
        minilm.load()


async def _vectors(embedder: Embedder, texts: list[str], *, query: bool) -> Rows:
    if embedder.service is not None:
        return await api_client.embed(embedder.service, texts, query=query)
    if embedder.id.startswith("local:"):
        return await (minilm.queries(texts) if query else minilm.documents(texts))
    if sum(map(len, texts)) < MAX_INLINE_CHARS:
        return hash_embedder.vectors(texts, embedder.dimensions)
    return await asyncio.to_thread(hash_embedder.vectors, texts, embedder.dimensions)


def _normalised(rows: Rows) -> Rows:
    # In double precision: the square of a number that fits in a float may not.
    lengths = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1, keepdims=True))
    np.divide(rows, lengths, out=rows, where=lengths > 0, casting="same_kind")
    return rows
