"""`/v1/embeddings` with the official client."""

import base64

import httpx2
import numpy as np
import openai
import pytest

from access.limits import usage_limits
from access.models import ApiToken, UsageCounter
from access.tokens import api_tokens
from telemetry.models import Expense, ExpensePurpose
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway.calls import bearer, error
from tests.gateway.limits.request_limits.requests import (
    DOLLAR,
    TOKENS,
    is_clear,
    token_meter,
)

pytestmark = pytest.mark.database

EMBEDDED = (
    "memory: {user_state: {embed_with: {provider: voyage, "
    'base_url: "{fake}/v1", api_key: sk-fake, model: voyage-3.5}}}\n'
)
PRICED = "prices: {openai: {'*': {input: 1000000, output: 0}}}\n"
TEXTS = ["She lives in Paris.", "He likes tea."]


@pytest.fixture
def headers(configure, user):
    """Headers of a token, on a server where a token is a dollar."""
    configure(CONFIG + TOKENS + PRICED)
    return bearer(new_token(user))


def new_token(user, **fields):
    return api_tokens.create_token("ci", user, by=ADA, **fields)[1]


def post(server, headers=None, **body):
    if headers is None:
        body = {"user": "ada", **body}
    address = f"{server}/v1/embeddings"
    return httpx2.post(address, json=body, headers=headers, timeout=60)


@pytest.mark.parametrize("model", ["hash", "local", "openai/embedder"])
def test_official_client_embeds_texts(client, model):
    answer = client.embeddings.create(model=model, input=TEXTS, user="ada")
    assert (answer.object, answer.model) == ("list", model)
    assert [each.index for each in answer.data] == [0, 1]
    for each in answer.data:
        assert np.linalg.norm(each.embedding) == pytest.approx(1, abs=1e-5)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0


@pytest.mark.parametrize("model", ["hash", "openai/embedder"])
def test_both_formats_have_the_same_vectors(server, fake, model):
    floats = post(server, model=model, input="tea").json()["data"][0]["embedding"]
    encoded = post(server, model=model, input="tea", encoding_format="base64").json()
    decoded = np.frombuffer(base64.b64decode(encoded["data"][0]["embedding"]), "<f4")
    assert decoded.tolist() == np.asarray(floats, np.float32).tolist()


def test_texts_are_sent_to_the_provider_whole(server, fake):
    long = "word " * 20_000
    answer = post(server, model="openai/embedder", input=[long, "tea"])
    assert answer.status_code == 200
    sent = [text for each in fake.embeddings for text in each.body["input"]]
    assert sent == [long, "tea"]
    assert "user" not in fake.embeddings[0].body


def test_dimensions_are_passed_or_computed(client, fake):
    for model in ("hash", "openai/embedder", "openai/text-embedding-3-small"):
        answer = client.embeddings.create(
            model=model, input="tea", dimensions=64, user="ada"
        )
        assert len(answer.data[0].embedding) == 64
    assert [each.body["dimensions"] for each in fake.embeddings] == [64, 64]
    with pytest.raises(openai.BadRequestError, match="384 dimensions") as caught:
        client.embeddings.create(model="local", input="tea", dimensions=64, user="ada")
    assert caught.value.param == "dimensions"


def test_embedder_of_memory_can_be_named(configure, client, fake):
    configure(CONFIG + EMBEDDED)
    for model in ("voyage-3.5", "voyage/voyage-3.5", "voyage/voyage-code-3"):
        client.embeddings.create(model=model, input="tea", user="ada")
    sent = [(each.body["model"], each.body["input_type"]) for each in fake.embeddings]
    assert sent == [
        ("voyage-3.5", "document"),
        ("voyage-3.5", "document"),
        ("voyage-code-3", "document"),
    ]


def test_bare_names_are_models_of_openai(configure, server):
    configure(
        CONFIG.replace(
            "providers:", "providers:\n  open: {api_key: sk, kind: openai}", 1
        )
    )
    refusal = error(post(server, model="text-embedding-3-smal", input="tea"), 404)
    assert "did you mean 'text-embedding-3-small'?" in refusal["message"]
    refusal = error(post(server, model="open/text-embedding-3", input="tea"), 404)
    assert "did you mean 'open/text-embedding-3-" in refusal["message"]


@pytest.mark.parametrize(
    "model", ["hsh", "assistant", "nobody/x", "claude/x", "openai/"]
)
def test_unknown_model_is_404(server, fake, model):
    refusal = error(post(server, model=model, input="tea"), 404)
    assert (refusal["code"], refusal["param"]) == ("model_not_found", "model")
    assert model != "hsh" or "did you mean 'hash'?" in refusal["message"]
    assert fake.embeddings == []


def test_model_that_the_provider_does_not_know_is_404(server, fake):
    fake.embed(status=404)
    refusal = error(post(server, model="openai/nope", input="tea"), 404)
    assert refusal["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("body", "param", "text"),
    [
        ({"input": [1, 2, 3]}, "input", "arrays of tokens are not supported"),
        ({"input": [[1, 2], [3]]}, "input", "arrays of tokens are not supported"),
        ({"input": []}, "input", ""),
        ({"input": ""}, "input[0]", "must not be blank"),
        ({"input": ["tea", " "]}, "input[1]", "must not be blank"),
        ({"input": {"text": "tea"}}, "input", ""),
        ({"input": ["tea"] * 2049}, "input", "2048"),
        ({"input": ["word " * 200_000, "word " * 100_000]}, "input", "300,000"),
        ({"input": ["tea"] * 2048, "dimensions": 16_000}, "input", "numbers"),
        ({"input": "tea", "dimensions": 0}, "dimensions", ""),
        ({"input": "tea", "encoding_format": "int8"}, "encoding_format", ""),
        ({"input": "tea", "truncate": True}, "truncate", ""),
    ],
    ids=range(12),
)
def test_invalid_request_is_refused(server, fake, body, param, text):
    refusal = error(post(server, model="hash", **body), 400)
    assert refusal["param"] == param
    assert text in refusal["message"]


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        ({"status": 400}, 400, None),
        ({"status": 401}, 502, "provider_key_refused"),
        ({"value": float("nan")}, 502, "provider_broken_reply"),
    ],
    ids=["refused", "key", "broken"],
)
def test_failure_of_the_provider_is_mapped(server, fake, failure, status, code):
    fake.embed(**failure)
    refusal = error(post(server, model="openai/embedder", input="tea"), status)
    assert refusal["code"] == code
    assert "sk-" not in refusal["message"]


def test_provider_tokens_are_charged_to_the_token(running, headers, fake, user):
    answer = post(running, headers, model="openai/embedder", input=TEXTS)
    used = sum(map(len, TEXTS))  # the scripted provider counts characters
    assert answer.json()["usage"]["total_tokens"] == used
    assert answer.headers["X-Coulisse-Cost-Usd"] == f"{used}.000000"
    spent = token_meter(user)
    assert (spent.tokens, spent.micro_usd) == (used, used * DOLLAR)
    assert is_clear(spent)
    expense = Expense.objects.filter(purpose=ExpensePurpose.EMBEDDING).latest("pk")
    assert (expense.provider, expense.model) == ("openai", "embedder")
    assert (expense.input_tokens, expense.cost_micro_usd) == (used, used * DOLLAR)


def test_offline_embedder_costs_nothing(running, headers, user):
    answer = post(running, headers, model="hash", input=TEXTS)
    assert answer.headers["X-Coulisse-Cost-Usd"] == "0.000000"
    assert answer.json()["usage"]["total_tokens"] > 0
    (row,) = ApiToken.objects.filter(principal=user)
    subject = usage_limits.token_subject(row)
    assert not UsageCounter.objects.filter(subject=subject).exists()


def test_budget_is_enforced_before_the_call(running, headers, fake, user):
    headers = bearer(new_token(user, budget="total", limit_micro_usd=2 * DOLLAR))
    answer = post(running, headers, model="openai/embedder", input=TEXTS)
    assert error(answer, 429)["type"] == "insufficient_quota"
    assert fake.embeddings == []


def test_unknown_price_is_refused_where_money_is_limited(
    configure, running, fake, user
):
    configure(CONFIG + TOKENS)
    headers = bearer(new_token(user, budget="total", limit_micro_usd=2 * DOLLAR))
    answer = post(running, headers, model="openai/embedder", input=TEXTS)
    assert error(answer, 403)["code"] == "price_unknown"


def test_token_for_certain_agents_may_not_embed(running, headers, user):
    headers = bearer(new_token(user, agents=["assistant"]))
    answer = post(running, headers, model="hash", input="tea")
    assert error(answer, 403)["code"] == "agents_only"
