"""The embedding models of each API, and how long their vectors are."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """One model."""

    dimensions: int
    """Unless others are asked for."""
    choices: Collection[int] = ()
    """The lengths that may be asked for; none where it has but one."""


DEFAULT_OPENAI = "text-embedding-3-small"
DEFAULT_VOYAGE = "voyage-3.5"

# https://platform.openai.com/docs/guides/embeddings
OPENAI: Mapping[str, EmbeddingModel] = {
    "text-embedding-3-small": EmbeddingModel(1536, range(1, 1537)),
    "text-embedding-3-large": EmbeddingModel(3072, range(1, 3073)),
    "text-embedding-ada-002": EmbeddingModel(1536),
}

# https://docs.voyageai.com/docs/embeddings
_VOYAGE_CHOICES = (256, 512, 1024, 2048)
VOYAGE: Mapping[str, EmbeddingModel] = {
    "voyage-3.5": EmbeddingModel(1024, _VOYAGE_CHOICES),
    "voyage-3-large": EmbeddingModel(1024, _VOYAGE_CHOICES),
    "voyage-3.5-lite": EmbeddingModel(1024, _VOYAGE_CHOICES),
    "voyage-code-3": EmbeddingModel(1024, _VOYAGE_CHOICES),
    "voyage-finance-2": EmbeddingModel(1024),
    "voyage-law-2": EmbeddingModel(1024),
    "voyage-code-2": EmbeddingModel(1536),
}
