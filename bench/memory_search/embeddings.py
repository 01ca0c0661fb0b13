"""Every text's vector, made once for all databases."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from bench.memory_search.dataset import Dataset
from config.sections import Config
from memory.recall import passages
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
    """Return the embedders that need nothing that is not installed."""
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
    """What each question took to embed."""

    def of(self, text: str) -> Embedded | None:
        """Return what is stored with a text."""
        return self._embedded(self.texts[text])

    def asking(self, question: str) -> Embedded | None:
        """Return what a question is asked with."""
        return self._embedded(self.questions[question])

    def _embedded(self, row: np.ndarray) -> Embedded | None:
        # As the product: one in which the embedder finds nothing has no vector.
        return Embedded(self.embedder, row) if row.any() else None

    def write(self, path: Path) -> None:
        np.savez(
            path,
            about=np.array([self.embedder, str(self.floor)]),
            text_keys=np.array(list(self.texts)),
            text_rows=np.array(list(self.texts.values())),
            question_keys=np.array(list(self.questions)),
            question_rows=np.array(list(self.questions.values())),
            milliseconds=np.array(self.milliseconds),
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        with np.load(path) as file:
            name, floor = file["about"].tolist()
            texts, asked = (
                dict(zip(file[f"{of}_keys"].tolist(), file[f"{of}_rows"], strict=True))
                for of in ("text", "question")
            )
            took = file["milliseconds"].tolist()
        return cls(name, float(floor), texts, asked, took)


def load_or_embed(name: str, wanted: Dataset, directory: Path) -> DatasetVectors:
    """Return the vectors of all texts and questions, kept in a directory once made."""
    path = directory / f"{name.replace(':', '-')}.npz"
    if not path.exists():
        embed_dataset(name, wanted).write(path)
    return DatasetVectors.read(path)


def embed_dataset(name: str, wanted: Dataset) -> DatasetVectors:
    """Embed all texts and questions, as the product does."""
    embedder = embedders.choose_embedder(Config(Path("none"), {}), EMBEDDERS[name])
    return asyncio.run(_embed_texts(embedder, wanted))


async def _embed_texts(embedder: Embedder, wanted: Dataset) -> DatasetVectors:
    embedders.preload(embedder)
    texts = list(dict.fromkeys(_texts(wanted)))
    rows = await embedders.embed_texts(embedder, texts)
    made = DatasetVectors(
        embedder.id, embedder.floor, dict(zip(texts, rows, strict=True)), {}
    )
    # One by one, as they come.
    for question in dict.fromkeys(_questions(wanted)):
        began = time.perf_counter()
        rows = await embedders.embed_texts(embedder, [question], query=True)
        made.milliseconds.append((time.perf_counter() - began) * 1e3)
        made.questions[question] = rows[0]
    return made


def _texts(wanted: Dataset) -> Iterator[str]:
    for fact in wanted.facts:
        yield passages.strip_subject(fact.content)
    for pair in wanted.pairs:
        yield passages.strip_subject(pair.old)
        yield passages.strip_subject(pair.new)
    for conversation in wanted.conversations:
        yield from (line.text for line in conversation.lines)


def _questions(wanted: Dataset) -> Iterator[str]:
    yield from (query.text for query in wanted.queries)
    for conversation in wanted.conversations:
        yield from (question.text for question in conversation.questions)
