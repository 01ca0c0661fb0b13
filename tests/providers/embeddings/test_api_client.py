"""The embeddings client, over real HTTP: formats, batches, retries, errors."""

import math
from pathlib import Path

import numpy as np
import orjson
import pytest

from config.sections import Config
from core.errors import CoulisseError
from providers.embeddings import api_client, embedders
from providers.embeddings.base import BatchLimits, Embedder
from providers.embeddings.config import EmbedderConfig
from providers.errors import (
    BrokenReply,
    KeyRefused,
    Overloaded,
    ProviderDisconnected,
    RateLimited,
    RequestRefused,
    TimedOut,
    Unreachable,
)
from testing.scripted_provider import KEY, FakeProvider

EMPTY = Config(Path("coulisse.yaml"), {"providers": {}})
APIS = pytest.mark.parametrize("api", ["openai", "voyage"])


def leading(fake: FakeProvider, api: str = "openai", **fields) -> Embedder:
    asked = EmbedderConfig.model_validate(fake.embed_with(api, **fields))
    return embedders.choose_embedder(EMPTY, asked)


def impatient(fake: FakeProvider, **fields) -> Embedder:
    """Return an embedder whose provider has timeouts and retries."""
    entry = fake.provider("openai", **fields)
    asked = EmbedderConfig(provider="openai", model="text-embedding-3-small")
    return embedders.choose_embedder(
        Config(Path("x"), {"providers": {"openai": entry}}), asked
    )


@APIS
@pytest.mark.parametrize("decimals", [True, False])
async def test_each_text_gets_its_own_vector(fake, api, decimals):
    fake.embed(as_floats=decimals, is_reversed=True)
    rows = await embedders.embed_texts(leading(fake, api), ["red", "blue", "red"])
    assert rows.dtype == np.float32
    assert rows.shape == (3, leading(fake, api).dimensions)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.array_equal(rows[0], rows[2])
    assert not np.array_equal(rows[0], rows[1])


async def test_request_matches_openais_api(fake):
    await embedders.embed_texts(leading(fake), ["Hello"])
    (request,) = fake.embeddings
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "text-embedding-3-small",
        "input": ["Hello"],
        "encoding_format": "base64",
    }
    assert fake.requests == []


@pytest.mark.parametrize(("query", "kind"), [(True, "query"), (False, "document")])
async def test_voyage_receives_the_input_type(fake, query, kind):
    await embedders.embed_texts(leading(fake, "voyage"), ["Hello"], query=query)
    assert fake.embeddings[0].body["input_type"] == kind
    assert "output_dimension" not in fake.embeddings[0].body


@pytest.mark.parametrize(
    ("api", "field"), [("openai", "dimensions"), ("voyage", "output_dimension")]
)
async def test_requested_dimensions_are_sent(fake, api, field):
    rows = await embedders.embed_texts(leading(fake, api, dims=256), ["Hello"])
    assert rows.shape == (1, 256)
    assert fake.embeddings[0].body[field] == 256


async def test_unknown_model_gets_no_dimensions_field(fake):
    embedder = leading(fake, model="nomic-embed-text", dims=768)
    fake.embed(dimensions=768)
    assert (await embedders.embed_texts(embedder, ["Hello"])).shape == (1, 768)
    assert "dimensions" not in fake.embeddings[0].body


async def test_key_and_headers_of_the_entry_are_sent(fake):
    await embedders.embed_texts(impatient(fake, headers={"X-Team": "a"}), ["Hello"])
    assert fake.embeddings[0].headers["x-team"] == "a"
    assert fake.embeddings[0].headers["authorization"] == f"Bearer {KEY}"


# Texts.


async def test_blank_texts_are_not_sent(fake):
    rows = await embedders.embed_texts(leading(fake), ["", "Hello", " \n\0"])
    assert fake.embeddings[0].body["input"] == ["Hello"]
    assert [bool(row.any()) for row in rows] == [False, True, False]


@pytest.mark.parametrize("texts", [[], [""]])
async def test_empty_texts_need_no_request(fake, texts):
    assert (await embedders.embed_texts(leading(fake), texts)).shape == (
        len(texts),
        1536,
    )
    assert fake.embeddings == []


async def test_invalid_characters_are_removed(fake):
    await embedders.embed_texts(leading(fake), ["a\0b\ud83dc", "😀"])
    assert fake.embeddings[0].body["input"] == ["a b c", "😀"]


@pytest.mark.parametrize("letter", ["a", "é", "字", "😀"])
async def test_long_texts_are_truncated(fake, letter):
    await embedders.embed_texts(leading(fake), [letter * 100_000])
    (sent,) = fake.embeddings[0].body["input"]
    assert set(sent) == {letter}
    assert 16_300 < len(sent.encode()) <= 2 * 8191


async def test_refused_long_text_is_retried_shorter(fake):
    fake.embed(status=400)
    await embedders.embed_texts(leading(fake), ["x" * 5000, "short"])
    assert [len(text) for text in fake.embeddings[1].body["input"]] == [1500, 5]


async def test_refused_short_text_is_not_retried(fake):
    fake.embed(status=400)
    with pytest.raises(RequestRefused):
        await embedders.embed_texts(leading(fake), ["short"])
    assert len(fake.embeddings) == 1


async def test_many_texts_are_sent_in_batches(fake):
    texts = [f"number {number}" for number in range(70)]
    rows = await embedders.embed_texts(leading(fake), texts)
    assert [len(request.body["input"]) for request in fake.embeddings] == [32, 32, 6]
    alone = await embedders.embed_texts(leading(fake), texts[-1:])
    assert np.allclose(rows[-1], alone[0])


def test_batches_respect_their_limits():
    limits = BatchLimits(3, 10, 100, 100)
    sizes = [4, 4, 4, 1, 1, 1, 1, 50, 1]
    batches = list(api_client._split_batches([b"x" * size for size in sizes], limits))
    found = [[len(text) for text in batch] for batch in batches]
    assert found == [[4, 4], [4, 1, 1], [1, 1], [50], [1]]


# Failures.


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_transient_failures_are_retried(fake, pauses, status):
    fake.embed(status=status)
    fake.embed(cut="headers")
    assert (await embedders.embed_texts(leading(fake), ["Hello"])).any()
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"status": 500}, Overloaded),
        ({"status": 429}, RateLimited),
        ({"status": 401}, KeyRefused),
        ({"cut": "headers"}, ProviderDisconnected),
        ({"error": {"type": "rate_limit_error"}}, RateLimited),
        ({"vector_count": 1}, BrokenReply),
        ({"vector_count": 3}, BrokenReply),
        ({"dimensions": 3}, BrokenReply),
        ({"dimensions": 3, "as_floats": True}, BrokenReply),
        ({"value": math.nan}, BrokenReply),
        ({"value": math.nan, "as_floats": True}, BrokenReply),
        ({"raw": b"not JSON"}, BrokenReply),
        ({"raw": b"[]"}, BrokenReply),
        ({"raw": b"{}"}, BrokenReply),
        ({"raw": b'{"data": [{}, {}]}'}, BrokenReply),
        ({"raw": b"<html>", "content_type": "text/html"}, BrokenReply),
    ],
)
async def test_failures_become_coulisse_errors(fake, pauses, answer, error):
    for _ in range(3):
        fake.embed(**answer)
    with pytest.raises(error) as caught:
        await embedders.embed_texts(leading(fake), ["one", "two"])
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "vectors",
    [
        [[0.5, "x"], [1, 2]],
        [["AAAA"], [1, 2]],
        [None, [1, 2]],
        [[[1, 2]], [1, 2]],
        ["!!!", [1, 2]],
        ["AAA=", [1, 2]],
        [[1e300, 1], [1, 2]],
        [[1, None], [1, 2]],
        [{}, [1, 2]],
    ],
)
async def test_invalid_vectors_are_a_broken_reply(fake, vectors):
    fake.embed(raw=orjson.dumps({"data": [{"embedding": v} for v in vectors]}))
    with pytest.raises(BrokenReply):
        await embedders.embed_texts(leading(fake, model="m", dims=2), ["one", "two"])


@pytest.mark.parametrize("places", [[0, 0], [1, 2], ["a", "b"], [None, 1]])
async def test_vectors_with_wrong_index_are_a_broken_reply(fake, places):
    data = [{"index": place, "embedding": [1, 2]} for place in places]
    fake.embed(raw=orjson.dumps({"data": data}))
    with pytest.raises(BrokenReply):
        await embedders.embed_texts(leading(fake, model="m", dims=2), ["one", "two"])


async def test_vectors_without_index_are_in_order(fake):
    data = [{"embedding": [3, 4]}, {"embedding": [0, 1e-30]}]
    fake.embed(raw=orjson.dumps({"data": data}))
    rows = await embedders.embed_texts(leading(fake, model="m", dims=2), ["one", "two"])
    assert np.allclose(rows, [[0.6, 0.8], [0, 1]])


async def test_wrong_dimensions_error_names_both(fake):
    fake.embed(dimensions=3)
    with pytest.raises(BrokenReply, match="3 dimensions, not 1536"):
        await embedders.embed_texts(leading(fake), ["Hello"])


async def test_wrong_vector_count_error_names_both(fake):
    fake.embed(vector_count=3)
    with pytest.raises(BrokenReply, match="3 vectors for 2 texts"):
        await embedders.embed_texts(leading(fake), ["one", "two"])


async def test_hanging_provider_times_out(fake):
    fake.embed(hang="headers")
    hasty = impatient(fake, timeouts={"total_seconds": 0.05})
    with pytest.raises(TimedOut):
        await embedders.embed_texts(hasty, ["Hello"])


async def test_unavailable_provider_is_unreachable(pauses):
    with FakeProvider() as gone:
        embedder = leading(gone)
    with pytest.raises(Unreachable, match=r"embed_with\.base_url"):
        await embedders.embed_texts(embedder, ["Hello"])


async def test_refused_key_error_names_the_setting(fake):
    fake.embed(status=401)
    with pytest.raises(KeyRefused, match=r"check embed_with\.api_key"):
        await embedders.embed_texts(leading(fake), ["Hello"])
    fake.embed(status=401)
    with pytest.raises(KeyRefused, match=r"check providers\.openai\.api_key"):
        await embedders.embed_texts(impatient(fake), ["Hello"])


async def test_every_failure_is_a_coulisse_error(fake, pauses):
    for status in (300, 400, 402, 404, 413, 418, 502):
        fake.default_embedding.status = status
        with pytest.raises(CoulisseError):
            await embedders.embed_texts(leading(fake), ["Hello"])
