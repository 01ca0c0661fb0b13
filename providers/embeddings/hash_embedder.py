"""Vectors of words by hashing: offline, the same everywhere, blind to meaning.

Each word adds to one dimension, chosen with its sign by a hash ("the hashing trick",
Weinberger et al. 2009); repeated words add ever less. Scripts without spaces contribute
pairs of characters.
"""

import asyncio
import functools
import hashlib
import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from config.sections import Config
from providers.config import ProviderConfig
from providers.embeddings.base import (
    Embedder,
    EmbedderKind,
    EmbedderProblem,
    Rows,
    offline_problems,
    resolve_threshold,
)
from providers.embeddings.config import EmbedderConfig

SIMILARITY_THRESHOLD = 0.05
LANGUAGES = "any, by its words"
MAX_INLINE_CHARS = 5_000
"""Longer texts are hashed on a thread: they take milliseconds."""

DEFAULT_DIMENSIONS = 1024
PLAIN_DIMENSIONS = 32
"""With so few dimensions, signs and stop words do not help: these count all words."""

MAX_CHARS = 50_000

_SPACELESS = (
    "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
# Vowel signs and accents, which Python does not class as letters, are parts of words.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff"
_EMOJI = "\u2600-\u27bf\U0001f000-\U0001faff"
TOKEN = re.compile(
    rf"(?P<run>[{_SPACELESS}]+)"
    rf"|(?P<word>(?:(?![{_SPACELESS}])[^\W_]|[{_MARKS}])+)"
    rf"|[{_EMOJI}]"
)

# Negations are no stop words: they turn a fact around.
STOP_WORDS = frozenset(
    """
    a about after again all also am an and any are as at be because been before being
    but by can could d did do does doing for from had has have having he her here hers
    him his how i if in into is it its just ll m me more most my of on or other our
    ours out over own re s same she should so some such t than that the their theirs
    them then there these they this those through to too until up us user ve very was
    we were what when where which who whom whose why will with would you your yours
    au aux avec ce ces cette dans de des du elle en est et eux il ils je la le les leur
    lui mais mes moi mon ou par pour qu que qui sa ses son sur ta te tes toi ton tu un
    une vos votre vous
    aber als auch auf aus bei bin bist das dass dem den der des die doch du ein eine
    einem einen einer eines er es für hat ich ihm ihn ihr im ist ja mein mit nach noch
    oder sehr sein sich sie sind über um und uns unser unter vom von vor war wenn wer
    wie wir wird zu zum zur
    al como con del el ella ellos era eran es esta este esto fue ha han las lo los más
    mi mis muy nos nuestro para pero por se ser si su sus también una uno y yo
    ao aos as com da das do dos ela ele eles em era foi isso mais mas meu minha na nas
    nos num numa os para pela pelo seu sua também uma você
    che chi ci da dei del della di gli io lei loro ma nel nella per più questo sono
    suo tra un uno
    """.split()  # noqa: SIM905 (a list of 300 quoted words is no easier to read)
)


class HashEmbedder(EmbedderKind):
    """The fallback embedder: it needs no model, network or installation."""

    warning = (
        "the embedder 'hash' has no semantic understanding: it finds facts by "
        "their words alone. Set embed_with to local, openai or voyage"
    )

    def problems(
        self, config: Config, embed_with: EmbedderConfig, entry: ProviderConfig | None
    ) -> Iterator[EmbedderProblem]:
        yield from offline_problems(embed_with)
        if embed_with.model is not None:
            yield "model", "'hash' has no models; remove it"

    def build(
        self, embed_with: EmbedderConfig, entry: ProviderConfig | None
    ) -> Embedder:
        dimensions = embed_with.dims or DEFAULT_DIMENSIONS
        threshold = resolve_threshold(embed_with, SIMILARITY_THRESHOLD)
        return Embedder(f"hash:{dimensions}", dimensions, threshold, LANGUAGES)

    async def embed(self, embedder: Embedder, texts: list[str], *, query: bool) -> Rows:
        if sum(map(len, texts)) < MAX_INLINE_CHARS:
            return embed_texts(texts, embedder.dimensions)
        return await asyncio.to_thread(embed_texts, texts, embedder.dimensions)


def embed_texts(texts: Sequence[str], dimensions: int) -> Rows:
    """Return a row for each text, not normalized; without words it is zero."""
    rows = np.zeros((len(texts), dimensions), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for dimension, weight in _weighted_dimensions(text, dimensions):
            row[dimension] += weight
    return rows


def tokenize(text: str) -> Iterator[str]:
    """Return the words of a text, or character pairs in scripts without spaces."""
    folded = unicodedata.normalize("NFKC", text[:MAX_CHARS]).casefold()
    for match in TOKEN.finditer(folded):
        word = match.group()
        if match["run"] is None or len(word) == 1:
            yield word
        else:
            yield from map("".join, itertools.pairwise(word))


def _weighted_dimensions(text: str, dimensions: int) -> Iterator[tuple[int, float]]:
    counts = Counter(tokenize(text))
    if dimensions == PLAIN_DIMENSIONS:
        for word, count in counts.items():
            yield _hash(word) % dimensions, count
        return
    # A text of only stop words still has a meaning.
    significant = counts.keys() - STOP_WORDS or counts.keys()
    # In text order, because float sums depend on the order.
    for word, count in counts.items():
        if word in significant:
            number = _hash(word)
            sign = 1.0 if number & 1 else -1.0
            yield (number >> 1) % dimensions, sign * (1 + math.log(count))


@functools.lru_cache(maxsize=8192)
def _hash(word: str) -> int:
    digest = hashlib.blake2b(word.encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
