"""Limits on requests without a turn: memory, feedback, exports, `/mcp` tools."""

import contextlib
import json
import socket
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx2
import pytest

from access.limits import time_windows, usage_limits
from access.models import ApiToken as TokenRow
from access.models import UsageCounter
from access.tokens import api_tokens
from access.users import identity
from access.users.request_user import USER_HEADER
from memory.facts import fact_store
from memory.facts.types import FactDraft
from memory.recall import query_embedding
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway import mcp_calls
from tests.gateway.calls import bearer, body, post, until
from tests.gateway.mcp_calls import call

pytestmark = pytest.mark.database

OFFLINE = "memory: {user_state: {embed_with: {provider: hash}}}\n"
EMBEDDED = (
    "memory: {user_state: {embed_with: {provider: openai, "
    'base_url: "{fake}/v1", api_key: sk-fake, model: text-embedding-3-small}}}\n'
)
# A dollar for each token.
PRICED = "prices: {openai: {text-embedding-3-small: {input: 1000000, output: 0}}}\n"
TOKENS = "auth: {proxy: {tokens: {}}}\n"
SHOWN = "telemetry: {sqlite: {show_to_users: true}}\n"

DOLLAR = 1_000_000
QUERY = "what she likes to drink with her breakfast"
SEARCH = "/v1/memories/search"
ESTIMATE = -(-len(QUERY) // 4)
"""Tokens reserved for a search with it. The fake counts a token per letter."""


@pytest.fixture
def serve(running, configure):
    """Return a function that starts a server with these sections and limits."""

    def serve(*sections: str, limits: str = "") -> str:
        listed = f"limits: [{limits}]\n" if limits else ""
        configure(f"{CONFIG}\n{''.join(sections)}{listed}")
        return running

    return serve


@pytest.fixture
def create_token(database):
    def create_token(user: str, **fields) -> str:
        return api_tokens.create_token("ci", user, by=ADA, **fields)[1]

    return create_token


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Let searches wait for a slow embedder, and end all of them afterwards."""
    monkeypatch.setattr(query_embedding, "MAX_WAIT_SECONDS", 60.0)
    monkeypatch.setattr(query_embedding, "_unavailable_until", {})


def send(url: str, method: str, path: str, user: str = "", **more) -> httpx2.Response:
    headers = {**more.pop("headers", {}), **({USER_HEADER: user} if user else {})}
    return httpx2.request(
        method, url + path, headers=headers, timeout=60, verify=False, **more
    )


def search(url: str, user: str = "", **more) -> httpx2.Response:
    request = {"query": QUERY}
    return send(url, "POST", "/v1/memories/search", user, json=request, **more)


@contextlib.contextmanager
def leaving(url: str, headers: dict[str, str], path: str = SEARCH, body=None):
    """Start a search, and cancel it at the end of the block."""
    address = urlsplit(url)
    content = json.dumps(body or {"query": QUERY}).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: test",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    with socket.create_connection((address.hostname, address.port), 60) as sending:
        sending.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        yield


def user_meter(user: str, length: int) -> UsageCounter | None:
    subject = usage_limits.user_subject(identity.derive_user_id(user))
    return UsageCounter.objects.filter(subject=subject, window=length).first()


def token_meter(user: str) -> UsageCounter:
    """Return the total usage of a user's only token."""
    (row,) = TokenRow.objects.filter(principal=user)
    subject = usage_limits.token_subject(row)
    return UsageCounter.objects.get(subject=subject, window=time_windows.EVER)


def is_clear(counter: UsageCounter | None) -> bool:
    """Return whether there are no reservations."""
    if counter is None:
        return True
    names = ("turns", "tokens", "micro_usd")
    ages = ("reserved_now", "reserved_before")
    return not any(getattr(counter, f"{name}_{age}") for name in names for age in ages)


# Counted requests.

EXEMPT = {
    # Their responses depend on the configuration only.
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
    # A task counts when its turn runs; clients poll its state until then.
    ("GET", "/v1/tasks"),
    ("POST", "/v1/tasks"),
    ("GET", "/v1/tasks/{task_id}"),
    ("POST", "/v1/tasks/{task_id}/cancel"),
}
BODIES = {
    ("POST", "/v1/chat/completions"): body("{user}"),
    ("POST", "/v1/feedback"): {
        "message_id": f"chatcmpl-{uuid.uuid4().hex}",
        "thumb": "up",
    },
    ("POST", "/v1/memories"): {"content": "Likes tea"},
    ("POST", "/v1/memories/search"): {"query": "tea"},
    ("PATCH", "/v1/memories/{memory_id}"): {"content": "Likes coffee"},
    ("POST", "/v1/tasks"): {"agent": "assistant", "prompt": "hi"},
}
QUERIES = {("GET", "/v1/memories/search"): {"q": "tea"}}


def operations(url: str) -> list[tuple[str, str]]:
    described = send(url, "GET", "/v1/openapi.json").json()["paths"]
    return [
        (method.upper(), path) for path, each in described.items() for method in each
    ]


def test_every_operation_is_limited_or_exempt(serve, fake, user):
    """A new endpoint must be added to one of the groups."""
    url = serve(SHOWN, limits="{per: principal, requests_per_hour: 0}")
    found = operations(url)
    assert set(found) >= EXEMPT | set(BODIES) | set(QUERIES)
    for operation in found:
        method, path = operation
        for name in ("memory_id", "message_id", "turn_id", "task_id"):
            path = path.replace(f"{{{name}}}", uuid.uuid4().hex)
        path = path.replace("{name}", "assistant").replace("{server}", "files")
        content = BODIES.get(operation)
        if content is not None and "safety_identifier" in content:
            content = {**content, "safety_identifier": user}
        more = {} if content is None else {"json": content}
        answer = send(url, method, path, user, params=QUERIES.get(operation), **more)
        if operation in EXEMPT:
            assert answer.status_code in (200, 201, 404), (operation, answer.text)
        else:
            assert answer.status_code == 429, (operation, answer.text)
            assert "hourly request limit of this user exceeded" in answer.text
    assert fake.requests == []


def test_every_mcp_tool_is_limited(serve, fake, user):
    url = serve(OFFLINE, limits="{per: principal, requests_per_hour: 0}")
    arguments = {
        "search_memory": {"query": "tea"},
        "save_memory": {"content": "Likes tea"},
    }

    async def names(client):
        return [tool.name for tool in (await client.list_tools()).tools]

    listed = mcp_calls.with_client(url, user, names)
    assert {"assistant", *arguments} <= set(listed)
    for name in listed:
        answer = mcp_calls.post(
            url, call(name, **arguments.get(name, {"message": "hi"})), user
        )
        result = answer.json()["result"]
        assert result["isError"], (name, result)
        assert "hourly request limit of this user" in result["content"][0]["text"]
    assert fake.requests == []


def test_each_request_counts_once(serve, fake, user):
    url = serve(OFFLINE, limits="{per: principal, requests_per_hour: 100}")
    counted = []

    def count() -> None:
        until(lambda: is_clear(user_meter(user, time_windows.HOUR)))
        counted.append(user_meter(user, time_windows.HOUR).requests)

    assert search(url, user).status_code == 200
    count()
    assert send(url, "GET", "/v1/memories", user).status_code == 200
    count()
    mcp_calls.post(url, call("search_memory", query="tea"), user)
    count()
    mcp_calls.post(url, call("assistant", message="hi"), user)
    count()
    assert post(url, body(user)).status_code == 200
    count()
    assert send(url, "GET", "/v1/users/me/export", user).status_code == 200
    count()
    # Requests that find nothing count.
    missing = send(url, "GET", f"/v1/memories/mem_{uuid.uuid4().hex}", user)
    assert missing.status_code == 404
    count()
    # Invalid requests do not count, as with turns.
    wrong = send(url, "POST", "/v1/memories/search", user, json={"query": ""})
    assert wrong.status_code == 400
    count()
    assert counted == [1, 2, 3, 4, 5, 6, 7, 7]


def test_remaining_requests_are_in_the_headers(serve, user):
    url = serve(limits="{per: principal, requests_per_hour: 2}")
    answers = [send(url, "GET", "/v1/memories", user) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    remaining = [answer.headers["x-ratelimit-remaining-requests"] for answer in answers]
    assert remaining == ["1", "0", "0"]
    assert answers[0].headers["x-ratelimit-limit-requests"] == "2"
    assert int(answers[2].headers["Retry-After"]) > 0
    assert answers[2].json()["error"]["code"] == "rate_limit_exceeded"
    # The same limit applies to turns.
    assert post(url, body(user)).status_code == 429


def test_agent_limits_do_not_apply(serve, user):
    url = serve(
        limits="{per: agent, requests_per_hour: 0}, "
        "{per: agent, name: assistant, concurrent: 1}"
    )
    assert send(url, "GET", "/v1/memories", user).status_code == 200


def test_token_limits_apply(serve, create_token, user):
    url = serve(TOKENS, limits="{per: token, requests_per_hour: 1}")
    headers = bearer(create_token(user))
    codes = [
        send(url, "GET", "/v1/memories", headers=headers).status_code for _ in range(2)
    ]
    assert codes == [200, 429]


def test_token_count_limits_apply_to_embedding_operations(serve, fake, user):
    url = serve(EMBEDDED, limits="{per: principal, tokens_per_day: 10}")
    answer = search(url, user)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-ratelimit-limit-tokens"] == "10"
    assert user_meter(user, time_windows.DAY).tokens == len(QUERY)
    assert search(url, user).status_code == 429
    listed = send(url, "GET", "/v1/memories", user)
    assert listed.status_code == 200
    assert "x-ratelimit-limit-tokens" not in listed.headers


# Concurrency.


def test_slow_search_uses_one_concurrent_slot(serve, fake, user):
    url = serve(EMBEDDED, limits="{per: principal, concurrent: 1}")
    fake.embed(hang="headers")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(search, url, user)
        fake.wait(lambda: fake.embeddings)
        assert send(url, "GET", "/v1/memories", user).status_code == 429
        assert post(url, body(user, metadata={"memory": "off"})).status_code == 429
        fake.release()
        assert running.result().status_code == 200
    assert send(url, "GET", "/v1/memories", user).status_code == 200
    assert is_clear(user_meter(user, time_windows.EVER))


def test_disconnected_search_releases_its_slot(serve, fake, user):
    url = serve(EMBEDDED, limits="{per: principal, concurrent: 1}")
    fake.embed(hang="headers")
    with leaving(url, {USER_HEADER: user}):
        fake.wait(lambda: fake.embeddings)
    fake.wait(lambda: fake.embeddings and fake.embeddings[-1].aborted)
    until(lambda: is_clear(user_meter(user, time_windows.EVER)))
    assert send(url, "GET", "/v1/memories", user).status_code == 200


def test_sent_export_releases_its_slot(serve, user):
    url = serve(limits="{per: principal, concurrent: 1}")
    drafts = [FactDraft(f"Fact {number}", source="user") for number in range(200)]
    fact_store.save_drafts(
        identity.derive_user_id(user), drafts, [None] * len(drafts), by="user"
    )
    answer = send(url, "GET", "/v1/users/me/export", user)
    assert answer.status_code == 200
    assert len(answer.json()["memories"]) == 200
    until(lambda: is_clear(user_meter(user, time_windows.EVER)))
    with httpx2.stream(
        "GET", url + "/v1/users/me/export", headers={USER_HEADER: user}, verify=False
    ) as started:
        assert started.status_code == 200
    until(lambda: is_clear(user_meter(user, time_windows.EVER)))


def test_failed_request_releases_its_slot(serve, user):
    url = serve(limits="{per: principal, concurrent: 1}")
    for _ in range(3):
        answer = send(url, "DELETE", f"/v1/memories/mem_{uuid.uuid4().hex}", user)
        assert answer.status_code == 404
    assert is_clear(user_meter(user, time_windows.EVER))


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


# The embeddings of turns.

CHAT_PRICED = (
    "prices: {openai: {text-embedding-3-small: {input: 1000000, output: 0}, "
    "gpt-test: {input: 0, output: 0}}}\n"
)


@pytest.mark.parametrize("stream", [False, True])
def test_recall_of_a_turn_is_charged(serve, fake, user, create_token, stream):
    url = serve(TOKENS, EMBEDDED, CHAT_PRICED)
    secret = create_token(user, budget="total", limit_micro_usd=1000 * DOLLAR)
    request = body(user, QUERY, stream=stream)
    assert post(url, request, headers=bearer(secret)).status_code == 200
    assert len(fake.embeddings) == 1
    until(lambda: is_clear(token_meter(user)))
    # The reply has ten tokens.
    assert token_meter(user).tokens == len(QUERY) + 10
    assert token_meter(user).micro_usd == len(QUERY) * DOLLAR


def test_memory_tools_of_a_turn_are_charged(
    running, configure, fake, user, create_token
):
    text = CONFIG.replace(
        "  - name: assistant\n", "  - name: assistant\n    memory_tools: true\n"
    )
    configure(f"{text}\n{TOKENS}{EMBEDDED}{CHAT_PRICED}")
    fake.call_tool("search_memory", {"query": "breakfast"})
    secret = create_token(user)
    assert post(running, body(user, QUERY), headers=bearer(secret)).status_code == 200
    assert len(fake.embeddings) == 2
    expected = (len(QUERY) + len("breakfast")) * DOLLAR
    assert token_meter(user).micro_usd == expected


def test_spent_token_refuses_turn_before_embedding(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED, CHAT_PRICED)
    secret = create_token(user, budget="total", limit_micro_usd=0)
    answer = post(url, body(user, QUERY), headers=bearer(secret))
    assert answer.status_code == 429
    assert (fake.embeddings, fake.requests) == ([], [])
    assert not UsageCounter.objects.filter(
        subject=usage_limits.token_subject(TokenRow.objects.get(principal=user))
    ).exists()


def test_recall_of_a_refused_turn_is_charged(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED, CHAT_PRICED)
    secret = create_token(user, budget="total", limit_micro_usd=1000 * DOLLAR)
    unknown = {"role": "tool", "tool_call_id": "nobody", "content": "42"}
    messages = [{"role": "user", "content": QUERY}, unknown]
    wrong = body(user, messages=messages)
    assert post(url, wrong, headers=bearer(secret)).status_code == 400
    assert (len(fake.embeddings), fake.requests) == (1, [])
    subject = usage_limits.token_subject(TokenRow.objects.get(principal=user))
    # The counter exists once the charge is stored, after the response.
    until(
        lambda: UsageCounter.objects.filter(subject=subject, micro_usd__gt=0).exists()
    )
    assert token_meter(user).micro_usd == len(QUERY) * DOLLAR
    assert is_clear(token_meter(user))


def test_recall_of_disconnected_client_is_charged(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED, CHAT_PRICED)
    secret = create_token(user, budget="total", limit_micro_usd=1000 * DOLLAR)
    fake.embed(hang="headers")
    content = body(user, QUERY)
    with leaving(url, bearer(secret), "/v1/chat/completions", content):
        fake.wait(lambda: fake.embeddings)
    subject = usage_limits.token_subject(TokenRow.objects.get(principal=user))
    until(
        lambda: UsageCounter.objects.filter(subject=subject, micro_usd__gt=0).exists()
    )
    assert token_meter(user).micro_usd == ESTIMATE * DOLLAR
    assert is_clear(token_meter(user))


def test_tool_result_turn_is_not_refused_by_its_prompt_estimate(
    serve, fake, user, create_token
):
    """The results' calls are in the history, which is not loaded yet."""
    url = serve(TOKENS, EMBEDDED, CHAT_PRICED)
    headers = bearer(create_token(user, budget="total", limit_micro_usd=1000 * DOLLAR))
    fake.call_tool("look")
    tools = [{"type": "function", "function": {"name": "look"}}]
    started = post(url, body(user, "hi", tools=tools), headers=headers).json()
    (requested,) = started["choices"][0]["message"]["tool_calls"]
    result = {"role": "tool", "tool_call_id": requested["id"], "content": "sky"}
    answer = post(url, body(user, messages=[result], tools=tools), headers=headers)
    assert answer.status_code == 200, answer.text
