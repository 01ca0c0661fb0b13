"""The cost of embeddings outside of turns."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from access.limits import time_windows
from access.models import ApiToken as TokenRow
from access.tokens import api_tokens
from telemetry.models import Expense, ExpensePurpose
from tests.access.actors import ADA
from tests.gateway import mcp_calls
from tests.gateway.calls import bearer, body, until
from tests.gateway.limits.request_limits.requests import (
    DOLLAR,
    EMBEDDED,
    ESTIMATE,
    OFFLINE,
    PRICED,
    QUERY,
    TOKENS,
    is_clear,
    leaving,
    search,
    send,
    token_meter,
)
from tests.gateway.mcp_calls import call

pytestmark = pytest.mark.database

# Money.


def test_parallel_searches_do_not_overspend(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED, PRICED)
    limit = 10 * ESTIMATE * DOLLAR
    headers = bearer(create_token(user, budget="total", limit_micro_usd=limit))
    for _ in range(10):
        fake.embed(hang="headers")
    with ThreadPoolExecutor(100) as pool:
        answers = [pool.submit(search, url, headers=headers) for _ in range(100)]
        fake.wait(lambda: len(fake.embeddings) == 10)
        until(lambda: sum(answer.done() for answer in answers) == 90)
        fake.release()
        served = [answer.result() for answer in answers]
    assert sorted(each.status_code for each in served) == [200] * 10 + [429] * 90
    assert len(fake.embeddings) == 10
    spent = token_meter(user)
    assert spent.micro_usd == 10 * len(QUERY) * DOLLAR
    assert spent.tokens == 10 * len(QUERY)
    assert is_clear(spent)
    refusal = next(each for each in served if each.status_code == 429)
    assert refusal.json()["error"]["type"] == "insufficient_quota"
    assert refusal.headers["X-Should-Retry"] == "false"


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("POST", "/v1/memories", {"content": "Likes tea"}),
        ("POST", "/v1/memories/search", {"query": "tea"}),
        ("GET", "/v1/memories/search?q=tea", None),
    ],
)
def test_embeddings_are_charged_as_the_api_counts_them(
    serve, fake, user, create_token, method, path, content
):
    url = serve(TOKENS, EMBEDDED, PRICED)
    headers = bearer(create_token(user))
    more = {} if content is None else {"json": content}
    assert send(url, method, path, headers=headers, **more).status_code in (200, 201)
    (embedded,) = fake.embeddings
    size = sum(map(len, embedded.body["input"]))
    assert (token_meter(user).tokens, token_meter(user).micro_usd) == (
        size,
        size * DOLLAR,
    )


def test_a_changed_memory_is_charged(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED, PRICED)
    headers = bearer(create_token(user))
    saved = send(
        url, "POST", "/v1/memories", headers=headers, json={"content": "Likes tea"}
    ).json()
    path = f"/v1/memories/{saved['id']}"
    for changes in (
        {"content": "Likes coffee"},
        {"status": "pending_review"},
        {"pinned": True},
    ):
        answer = send(url, "PATCH", path, headers=headers, json=changes)
        assert answer.status_code == 200
    sizes = [sum(map(len, request.body["input"])) for request in fake.embeddings]
    assert len(sizes) == 3
    assert token_meter(user).tokens == sum(sizes)


def test_memory_tools_of_mcp_are_charged(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED, PRICED)
    secret = create_token(user, budget="total", limit_micro_usd=100 * DOLLAR)
    answer = mcp_calls.post(
        url, call("search_memory", query=QUERY), None, **bearer(secret)
    )
    assert (
        "isError" not in answer.json()["result"]
        or not (answer.json()["result"]["isError"])
    )
    assert token_meter(user).micro_usd == len(QUERY) * DOLLAR
    answer = mcp_calls.post(
        url, call("save_memory", content=QUERY * 30), None, **bearer(secret)
    )
    result = answer.json()["result"]
    assert result["isError"]
    assert "budget does not cover the request" in result["content"][0]["text"]
    assert len(fake.embeddings) == 1


def test_estimate_is_charged_when_embedder_reports_no_usage(
    serve, fake, user, create_token
):
    url = serve(TOKENS, EMBEDDED, PRICED)
    answer = fake.embed()
    plain = answer._list

    answer._list = lambda asked: {
        name: value for name, value in plain(asked).items() if name != "usage"
    }
    assert search(url, headers=bearer(create_token(user))).status_code == 200
    assert token_meter(user).tokens == ESTIMATE


def test_failed_embedding_is_not_charged(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED, PRICED)
    headers = bearer(create_token(user, budget="total", limit_micro_usd=1000 * DOLLAR))
    fake.embed(status=400)
    answer = search(url, headers=headers)
    assert (answer.status_code, answer.json()["embedding"]) == (200, "failed")
    assert (token_meter(user).tokens, token_meter(user).micro_usd) == (0, 0)
    assert is_clear(token_meter(user))


def test_embedding_of_disconnected_client_is_charged(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED, PRICED)
    limit = 1000 * DOLLAR
    headers = bearer(create_token(user, budget="total", limit_micro_usd=limit))
    fake.embed(hang="headers")
    with leaving(url, headers):
        fake.wait(lambda: fake.embeddings)
    until(lambda: is_clear(token_meter(user)))
    assert token_meter(user).tokens == ESTIMATE
    assert token_meter(user).micro_usd == ESTIMATE * DOLLAR


def test_embedding_of_turn_that_does_not_begin_is_charged_and_recorded(
    serve, fake, user, create_token
):
    url = serve(TOKENS, EMBEDDED, PRICED)
    headers = bearer(create_token(user))
    send(url, "POST", "/v1/memories", headers=headers, json={"content": "Likes tea"})
    charged = token_meter(user).tokens
    expenses = Expense.objects.filter(purpose=ExpensePurpose.EMBEDDING)
    recorded = expenses.count()
    shape = {"name": "shape", "schema": {"type": "nonsense"}}
    reply_format = {"type": "json_schema", "json_schema": shape}
    refused = body(user, "What does she drink?", response_format=reply_format)
    answer = send(url, "POST", "/v1/chat/completions", headers=headers, json=refused)
    assert answer.json()["error"]["code"] == "invalid_json_schema"
    until(lambda: expenses.count() > recorded)
    used = expenses.latest("pk").input_tokens
    assert used > 0
    assert token_meter(user).tokens == charged + used


MEMORY = [
    ("GET", "/v1/memories", None),
    ("POST", "/v1/memories", {"content": "Likes tea"}),
    ("GET", "/v1/memories/search?q=tea", None),
    ("POST", "/v1/memories/search", {"query": "tea"}),
    ("GET", f"/v1/memories/mem_{uuid.uuid4().hex}", None),
    ("PATCH", f"/v1/memories/mem_{uuid.uuid4().hex}", {"content": "Likes tea"}),
    ("DELETE", f"/v1/memories/mem_{uuid.uuid4().hex}", None),
    ("GET", f"/v1/memories/mem_{uuid.uuid4().hex}/history", None),
]


@pytest.mark.parametrize("embedder", [OFFLINE, EMBEDDED], ids=["offline", "api"])
def test_spent_token_stops_memory_requests(serve, fake, user, create_token, embedder):
    url = serve(TOKENS, embedder, PRICED)
    headers = bearer(create_token(user, budget="total", limit_micro_usd=0))
    for method, path, content in MEMORY:
        more = {} if content is None else {"json": content}
        refusal = send(url, method, path, headers=headers, **more)
        assert refusal.status_code == 429, (method, path)
        assert refusal.json()["error"]["type"] == "insufficient_quota"
    # Users may always export and erase their data.
    assert send(url, "GET", "/v1/users/me/export", headers=headers).status_code == 200
    assert send(url, "DELETE", "/v1/users/me", headers=headers).status_code == 202
    assert fake.embeddings == []


def test_revoked_token_is_refused_everywhere(serve, user, create_token):
    url = serve(TOKENS, OFFLINE, limits="{per: token, requests_per_hour: 100}")
    secret = create_token(user)
    assert search(url, headers=bearer(secret)).status_code == 200
    (row,) = TokenRow.objects.filter(principal=user)
    api_tokens.revoke(str(row.id), by=ADA)
    for method, path, content in MEMORY:
        more = {} if content is None else {"json": content}
        assert send(url, method, path, headers=bearer(secret), **more).status_code == (
            401
        )
    answer = mcp_calls.post(
        url, call("search_memory", query="tea"), None, **bearer(secret)
    )
    assert answer.status_code == 401


def test_cost_limit_refuses_embedder_without_price(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED)
    headers = bearer(create_token(user, budget="monthly", limit_micro_usd=100 * DOLLAR))
    refusal = search(url, headers=headers)
    assert refusal.status_code == 403
    assert refusal.json()["error"]["code"] == "price_unknown"
    assert "openai/text-embedding-3-small" in refusal.text
    assert "coulisse.yaml" not in refusal.text
    assert fake.embeddings == []
    # Requests without an embedding have a known price.
    assert send(url, "GET", "/v1/memories", headers=headers).status_code == 200
    # Without a limit on money, the cost counts as unknown.
    other = f"{user}-b"
    assert search(url, headers=bearer(create_token(other))).status_code == 200
    assert (token_meter(other).micro_usd, token_meter(other).unpriced) == (0, 1)


def test_offline_embedder_costs_nothing(serve, user, create_token):
    url = serve(TOKENS, OFFLINE)
    headers = bearer(create_token(user, budget="total", limit_micro_usd=1))
    assert search(url, headers=headers).status_code == 200
    until(lambda: is_clear(token_meter(user)))
    assert token_meter(user).micro_usd == 0


def test_refusal_lasts_until_the_window_ends(serve, user):
    url = serve(limits="{per: principal, requests_per_day: 1}")
    assert send(url, "GET", "/v1/memories", user).status_code == 200
    refusal = send(url, "GET", "/v1/memories", user)
    end = time_windows.window_at(time_windows.DAY, int(time.time())).end
    assert abs(int(refusal.headers["Retry-After"]) - (end - time.time())) < 30
