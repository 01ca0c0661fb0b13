"""The offline embedders: MiniLM on the CPU, and hashed words."""

import asyncio
import os
import threading
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from config.sections import Config
from providers.embeddings import embedders, hash_embedder, minilm
from providers.embeddings.config import EmbedderConfig
from providers.errors import EmbedderDown

EMPTY = Config(Path("coulisse.yaml"), {"providers": {}})
LOCAL = embedders.choose_embedder(EMPTY, EmbedderConfig(provider="local"))
HASH = embedders.choose_embedder(EMPTY, EmbedderConfig(provider="hash"))
PLAIN = embedders.choose_embedder(EMPTY, EmbedderConfig(provider="hash", dims=32))
BOTH = pytest.mark.parametrize("embedder", [LOCAL, HASH], ids=lambda e: e.id)


async def similarity(embedder, one: str, other: str) -> float:
    first, second = await embedders.embed_texts(embedder, [one, other])
    return float(first @ second)


# Both embedders.


@BOTH
@pytest.mark.parametrize("query", [True, False])
async def test_rows_have_unit_length_for_any_text(embedder, query):
    texts = [
        "Hello",
        "你好 世界",
        "أعيش في باريس",
        "🎉🎂",
        "नमस्ते दुनिया",
        "x " * 50_000,
    ]
    rows = await embedders.embed_texts(embedder, texts, query=query)
    assert rows.shape == (len(texts), embedder.dimensions)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


@BOTH
async def test_empty_texts_are_zero_rows(embedder):
    rows = await embedders.embed_texts(embedder, ["", "  \n", "\0", "\ud800", "Hello"])
    assert [bool(row.any()) for row in rows] == [False] * 4 + [True]
    assert (await embedders.embed_texts(embedder, [])).shape == (0, embedder.dimensions)


@BOTH
async def test_same_text_has_the_same_row_in_any_batch(embedder):
    long = "And then we went on to the market in the rain. " * 8
    (alone,) = await embedders.embed_texts(embedder, ["She lives in Lisbon."])
    company = await embedders.embed_texts(
        embedder, [long, "She lives in Lisbon.", "Hi"]
    )
    assert alone @ company[1] > 0.98


@BOTH
async def test_surrogates_and_nul_are_ignored(embedder):
    assert await similarity(embedder, "Hello \ud83d there\0", "Hello  there ") > 0.999


# local.


async def test_paraphrase_is_closer_than_another_topic():
    fact = "The user is allergic to peanuts."
    close = await similarity(LOCAL, fact, "She cannot eat nuts, they make her ill.")
    far = await similarity(LOCAL, fact, "The train to Porto leaves at nine.")
    assert close > 0.4
    assert far < LOCAL.similarity_threshold


async def test_embedding_does_not_block_the_event_loop(monkeypatch):
    ticked = threading.Event()
    embed = minilm._ProcessModel.embed

    def patient(own, texts):
        # On the event loop this would wait in vain.
        assert ticked.wait(60)
        return embed(own, texts)

    monkeypatch.setattr(minilm._ProcessModel, "embed", patient)
    work = asyncio.ensure_future(embedders.embed_texts(LOCAL, ["Hello"]))
    for _ in range(10):
        await asyncio.sleep(0.001)
    assert not work.done()
    ticked.set()
    assert (await work).any()


async def test_query_does_not_wait_for_all_documents(monkeypatch):
    done: list[int] = []
    embed = minilm._ProcessModel.embed

    def noted(own, texts):
        done.append(len(texts))
        return embed(own, texts)

    monkeypatch.setattr(minilm._ProcessModel, "embed", noted)
    monkeypatch.setattr(minilm, "MAX_BATCH", 1)
    documents = [f"text {number}" for number in range(20)]
    work = asyncio.ensure_future(embedders.embed_texts(LOCAL, documents))
    await asyncio.sleep(0)
    await embedders.embed_texts(LOCAL, ["a new query"], query=True)
    assert len(done) < 10
    await work


async def test_recent_query_is_cached(monkeypatch):
    monkeypatch.setattr(minilm, "MAX_CACHED_QUERIES", 2)
    monkeypatch.setattr(minilm._process_model, "_recent", OrderedDict())
    (first,) = await embedders.embed_texts(LOCAL, ["one more query"], query=True)

    def refuse(own, texts):
        raise AssertionError(texts)

    with monkeypatch.context() as patch:
        patch.setattr(minilm._ProcessModel, "embed", refuse)
        (again,) = await embedders.embed_texts(LOCAL, ["one more query"], query=True)
        assert np.array_equal(first, again)
        # What a caller does to its rows is its own affair.
        again[:] = 0
        (third,) = await embedders.embed_texts(LOCAL, ["one more query"], query=True)
        assert np.array_equal(first, third)
    for number in range(3):
        await embedders.embed_texts(LOCAL, [f"other {number}"], query=True)
    assert minilm._process_model.cached_query("one more query") is None


def test_batches_hold_texts_of_similar_length():
    texts = ["x" * size for size in (10, 1900, 20, 1, 5000)] + ["y"] * 40
    batches = list(minilm._split_batches(texts))
    assert sorted(number for batch in batches for number in batch) == list(range(45))
    assert max(map(len, batches)) == minilm.MAX_BATCH
    assert batches[-2:] == [[1], [4]]


def test_event_loops_share_the_model():
    rows = [asyncio.run(embedders.embed_texts(LOCAL, ["Hello"])) for _ in range(2)]
    assert np.array_equal(*rows)


def test_parallel_threads_load_the_model_once(monkeypatch):
    monkeypatch.setattr(minilm, "_process_model", minilm._ProcessModel())
    loaded = []

    def load() -> object:
        time.sleep(0.01)
        loaded.append(1)
        return object()

    monkeypatch.setattr(minilm, "_load_model", load)
    threads = [
        threading.Thread(target=embedders.preload, args=[LOCAL]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loaded == [1]


def test_preload_of_other_embedders_does_nothing():
    assert embedders.preload(HASH) is None


async def test_model_load_failure_is_reported(monkeypatch):
    monkeypatch.setattr(minilm, "_process_model", minilm._ProcessModel())
    monkeypatch.setattr(minilm, "_weights_path", lambda: Path("no-such-model.onnx"))
    with pytest.raises(EmbedderDown, match=r"install requirements\.txt"):
        await embedders.embed_texts(LOCAL, ["Hello"])


def test_packages_are_imported_lazily():
    source = Path(minilm.__file__).read_text()
    first = [
        line for line in source.splitlines() if line.startswith(("import", "from"))
    ]
    assert first
    assert not any(package in line for line in first for package in minilm.PACKAGES)


# hash.


async def test_common_words_raise_similarity():
    same = await similarity(
        HASH, "My sister Ada got married", "When did ADA marry? sister"
    )
    other = await similarity(
        HASH, "My sister Ada got married", "The train is late again"
    )
    assert same > 0.4
    assert abs(other) < HASH.similarity_threshold


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("我喜欢吃苹果", "你喜欢苹果吗"),
        ("私は東京に住んでいます", "東京に住んでいる人"),
        ("أعيش في باريس", "باريس مدينة"),
        ("\uff46\uff55\uff4c\uff4c", "Full width"),
        ("STRASSE", "straße"),
        ("🎂 🎉", "🎂"),
    ],
)
async def test_words_of_every_script_count(one, other):
    assert await similarity(HASH, one, other) > 0.3


async def test_stop_words_do_not_count():
    assert await similarity(HASH, "the cat", "the dog") == 0
    assert await similarity(HASH, "the cat is", "cat") > 0.999
    # A text of them alone is still a text.
    assert await similarity(HASH, "to be or not to be", "To be, or not to be") > 0.999


async def test_negations_are_not_stop_words():
    assert await similarity(HASH, "likes fish", "does not like fish") < 0.9
    assert list(hash_embedder.STOP_WORDS & {"not", "no", "never", "nie", "pas"}) == []


async def test_repetition_has_diminishing_weight():
    assert await similarity(HASH, "tea " * 100 + "milk", "milk") > 0.15


async def test_few_dimensions_are_a_plain_bag_of_words():
    (row,) = await embedders.embed_texts(PLAIN, ["the cat and the dog"])
    assert row.min() >= 0
    assert sorted(row[row > 0] ** 2 * 7)[-1] >= 4 - 1e-5


def test_hash_rows_are_stable_across_processes():
    # Worked out once: another number here would orphan every stored vector.
    (row,) = hash_embedder.embed_texts(["Ada likes tea"], 1024)
    assert {int(place): float(row[place]) for place in np.flatnonzero(row)} == KNOWN


KNOWN = {10: 1.0, 691: -1.0, 733: -1.0}


async def test_long_text_is_hashed_in_a_thread(monkeypatch):
    seen = []
    real = hash_embedder.embed_texts

    def noted(texts, dimensions):
        seen.append(threading.current_thread() is threading.main_thread())
        return real(texts, dimensions)

    monkeypatch.setattr(hash_embedder, "embed_texts", noted)
    await embedders.embed_texts(HASH, ["short"])
    await embedders.embed_texts(HASH, ["long " * 20_000])
    assert seen == [True, False]


# Forks.


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_process_can_embed():
    asyncio.run(embedders.embed_texts(LOCAL, ["Hello"]))
    own = minilm._process_model
    child = os.fork()
    if child == 0:
        try:
            # It has its own thread and locks; the model would take a moment to load.
            assert minilm._process_model is not own
            minilm._process_model._model = own._model
            rows = asyncio.run(embedders.embed_texts(LOCAL, ["Hello"]))
            os._exit(0 if rows.any() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
