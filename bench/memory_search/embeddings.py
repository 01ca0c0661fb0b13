"""Embeddings of all texts, computed once for all databases."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from bench.memory_search.dataset import Dataset
from config.sections import Config
from memory.recall.index import tokenizer
from memory.recall.types import Embedded
from providers.embeddings import embedders, minilm
from providers.embeddings.base import Embedder
from providers.embeddings.config import EmbedderConfig

EMBEDDERS = {
    "hash:32": EmbedderConfig(provider="hash", dims=32),
    "hash:1024": EmbedderConfig(provider="hash"),
    "local": EmbedderConfig(provider="local"),
}


def available() -> list[str]:
    """Return the embedders whose packages are installed."""
    return [name for name in EMBEDDERS if name != "local" or minilm.is_available()]


@dataclass(frozen=True)
class DatasetVectors:
    """The vectors of one embedder."""

    embedder: str
    """Its id."""
    floor: float
    texts: dict[str, np.ndarray]
    questions: dict[str, np.ndarray]
    milliseconds: list[float] = field(default_factory=list)
    """Time to embed each question."""

    def of(self, text: str) -> Embedded | None:
        """Return the embedding to store with a text."""
        return self._embedded(self.texts[text])

    def of_question(self, question: str) -> Embedded | None:
        """Return the embedding of a question."""
        return self._embedded(self.questions[question])

    def _embedded(self, row: np.ndarray) -> Embedded | None:
        # Like the product, which stores no zero vectors.
        return Embedded(self.embedder, row) if row.any() else None

    def write(self, path: Path) -> None:
        np.savez(
            path,
            metadata=np.array([self.embedder, str(self.floor)]),
            text_keys=np.array(list(self.texts)),
            text_rows=np.array(list(self.texts.values())),
            question_keys=np.array(list(self.questions)),
            question_rows=np.array(list(self.questions.values())),
            milliseconds=np.array(self.milliseconds),
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        with np.load(path) as file:
            name, floor = file["metadata"].tolist()
            texts, questions = (
                dict(
                    zip(
                        file[f"{kind}_keys"].tolist(), file[f"{kind}_rows"], strict=True
                    )
                )
                for kind in ("text", "question")
            )
            milliseconds = file["milliseconds"].tolist()
        return cls(name, float(floor), texts, questions, milliseconds)


def load_or_embed(name: str, data: Dataset, directory: Path) -> DatasetVectors:
    """Return the embeddings of all texts and questions, cached in a directory."""
    path = directory / f"{name.replace(':', '-')}.npz"
    if not path.exists():
        embed_dataset(name, data).write(path)
    return DatasetVectors.read(path)


def embed_dataset(name: str, data: Dataset) -> DatasetVectors:
    """Embed all texts and questions, like the product does."""
    embedder = embedders.choose_embedder(Config(Path("none"), {}), EMBEDDERS[name])
    return asyncio.run(_embed_texts(embedder, data))


async def _embed_texts(embedder: Embedder, data: Dataset) -> DatasetVectors:
    embedders.preload(embedder)
    texts = list(dict.fromkeys(_texts(data)))
    rows = await embedders.embed_texts(embedder, texts)
    vectors = DatasetVectors(
        embedder.id,
        embedder.similarity_threshold,
        dict(zip(texts, rows, strict=True)),
        {},
    )
    # One by one, like in production.
    for question in dict.fromkeys(_questions(data)):
        started_at = time.perf_counter()
        rows = await embedders.embed_texts(embedder, [question], query=True)
        vectors.milliseconds.append((time.perf_counter() - started_at) * 1e3)
        vectors.questions[question] = rows[0]
    return vectors


def _texts(data: Dataset) -> Iterator[str]:
    for fact in data.facts:
        yield tokenizer.strip_subject(fact.content)
    for pair in data.pairs:
        yield tokenizer.strip_subject(pair.old)
        yield tokenizer.strip_subject(pair.new)
    for conversation in data.conversations:
        yield from (line.text for line in conversation.lines)


def _questions(data: Dataset) -> Iterator[str]:
    yield from (query.text for query in data.queries)
    for conversation in data.conversations:
        yield from (question.text for question in conversation.questions)
