"""The embedder value, and the interface of embedder kinds."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from config.sections import Config
from config.validation.suggestions import did_you_mean
from providers.config import ProviderConfig
from providers.embeddings.config import EmbedderConfig
from providers.resilience.error_mapping import ProviderSource

ANY_LANGUAGE = "many"

Rows = NDArray[np.float32]

EmbedderProblem = tuple[str, str]
"""A field of `embed_with`, and its problem."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of one request to an API.

    Tokens are estimated from bytes: a token has at least one byte, and two bytes per
    token is a conservative average.
    """

    batch_texts: int
    batch_bytes: int
    text_bytes: int
    safe_text_bytes: int
    """The bytes of each text to send after a request was refused."""


@dataclass(frozen=True, slots=True)
class EmbeddingApi:
    """One model of an API, and its request options."""

    source: ProviderSource
    dimensions: int
    """0 if only the API knows it."""
    limits: BatchLimits
    extra: Mapping[str, Any]
    """Fields of the request besides the texts and the model."""
    sends_input_type: bool = False
    """Whether requests state if texts are queries or documents."""


@dataclass(frozen=True, slots=True)
class Embedder:
    """A configured embedder; an immutable value, equal in every process."""

    id: str
    """Names the vector space, the same in every version. It begins with the kind's
    name and a colon."""
    dimensions: int
    similarity_threshold: float
    """The cosine similarity below which two texts are unrelated."""
    languages: str = ANY_LANGUAGE
    api: EmbeddingApi | None = field(default=None, repr=False, compare=False)
    """The API that computes the vectors; None for embedders on this machine."""

    @property
    def is_offline(self) -> bool:
        """Return whether no text leaves the machine."""
        return self.api is None


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    dimensions: int
    """The default for `dims`."""
    choices: Collection[int] = ()
    """The values that `dims` may have; empty where the length is fixed."""


class EmbedderKind(ABC):
    """One kind of embedder: one module, and one line in `embedders.EMBEDDERS`.

    `entry` is the entry under `providers:` that `embed_with.provider` names, if any.
    """

    warning: str | None = None
    """A warning for the operator about this kind."""

    @abstractmethod
    def problems(
        self, config: Config, embed_with: EmbedderConfig, entry: ProviderConfig | None
    ) -> Iterator[EmbedderProblem]:
        """Yield each problem of `embed_with`."""

    @abstractmethod
    def build(
        self, embed_with: EmbedderConfig, entry: ProviderConfig | None
    ) -> Embedder:
        """Return the embedder for an `embed_with` without problems."""

    @abstractmethod
    async def embed(self, embedder: Embedder, texts: list[str], *, query: bool) -> Rows:
        """Return a row for each text, of any length; no text is blank."""

    def load(self) -> None:  # noqa: B027 (most kinds have nothing to load)
        """Load data in advance of the first call; blocks."""


def resolve_threshold(embed_with: EmbedderConfig, default: float) -> float:
    """Return `embed_with.similarity_threshold`, or the default of the kind."""
    own = embed_with.similarity_threshold
    return default if own is None else own


def model_problems(
    embed_with: EmbedderConfig,
    models: Mapping[str, EmbeddingModel],
    *,
    default: str | None,
    is_other_server: bool,
) -> Iterator[EmbedderProblem]:
    """Yield the problems of `model` and `dims`, given the models of an API.

    Another server that speaks the same API may have any model.
    """
    if embed_with.model is None and is_other_server:
        remedy = f"name an embedding model of '{embed_with.provider}'"
        yield "model", f"is required: {remedy}"
        return
    name = embed_with.model or default or ""
    model = models.get(name)
    if model is not None:
        yield from _dims_problems(embed_with.dims, name, model)
    elif not is_other_server:
        hint = did_you_mean(name, models) or "."
        yield (
            "model",
            f"'{embed_with.provider}' has no embedding model '{name}'{hint} "
            f"The models are {', '.join(models)}",
        )
    elif embed_with.dims is None:
        yield "dims", f"is required: set the number of dimensions of '{name}'"


def _dims_problems(
    dims: int | None, name: str, model: EmbeddingModel
) -> Iterator[EmbedderProblem]:
    if dims in (None, model.dimensions) or dims in model.choices:
        return
    choices: Sequence[int] = tuple(model.choices) or (model.dimensions,)
    if isinstance(model.choices, range):
        supported = f"from {choices[0]} to {choices[-1]}"
    else:
        supported = " or ".join(map(str, choices))
    yield "dims", f"'{name}' has vectors of {supported} dimensions, not {dims}"


def offline_problems(embed_with: EmbedderConfig) -> Iterator[EmbedderProblem]:
    """Yield the fields that an offline embedder does not support."""
    for name in ("api_key", "base_url"):
        if getattr(embed_with, name) is not None:
            yield name, f"'{embed_with.provider}' works offline; remove it"
