"""Which requests count, and how many may run at once."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from access.limits import time_windows
from access.users import identity
from access.users.request_user import USER_HEADER
from memory.facts import fact_store
from memory.facts.types import FactDraft
from tests.gateway import mcp_calls
from tests.gateway.calls import bearer, body, post, until
from tests.gateway.limits.request_limits.requests import (
    EMBEDDED,
    OFFLINE,
    QUERY,
    SHOWN,
    TOKENS,
    is_clear,
    leaving,
    search,
    send,
    user_meter,
)
from tests.gateway.mcp_calls import call

pytestmark = pytest.mark.database

# Counted requests.

EXEMPT = {
    # Their responses depend on the configuration only.
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
    # A response counts when its turn runs; clients poll those in the background.
    ("GET", "/v1/responses/{response_id}"),
    ("DELETE", "/v1/responses/{response_id}"),
    ("POST", "/v1/responses/{response_id}/cancel"),
    ("GET", "/v1/responses/{response_id}/input_items"),
    # A task counts when its turn runs; clients poll its state until then.
    ("GET", "/v1/tasks"),
    ("POST", "/v1/tasks"),
    ("GET", "/v1/tasks/{task_id}"),
    ("POST", "/v1/tasks/{task_id}/cancel"),
}


BODIES = {
    ("POST", "/v1/chat/completions"): body("{user}"),
    ("POST", "/v1/chat/completions/{completion_id}"): {"metadata": {"topic": "tea"}},
    ("POST", "/v1/completions"): {
        "model": "assistant",
        "prompt": "hi",
        "user": "{user}",
    },
    ("POST", "/v1/conversations"): {},
    ("POST", "/v1/conversations/{conversation_id}"): {"metadata": {"topic": "tea"}},
    ("POST", "/v1/conversations/{conversation_id}/items"): {
        "items": [{"role": "user", "content": "tea"}]
    },
    ("POST", "/v1/embeddings"): {"model": "hash", "input": "tea"},
    ("PATCH", "/v1/threads/{thread_id}"): {"title": "tea"},
    ("POST", "/v1/threads/{thread_id}/end"): {},
    ("PATCH", "/v1/threads/{thread_id}/state"): {"agent": "assistant"},
    ("POST", "/v1/threads/{thread_id}/messages"): {
        "agent": "assistant",
        "messages": [
            {"role": "user", "content": "tea"},
            {"role": "assistant", "content": "Here."},
        ],
    },
    ("POST", "/v1/feedback"): {
        "message_id": f"chatcmpl-{uuid.uuid4().hex}",
        "thumb": "up",
    },
    ("POST", "/v1/memories"): {"content": "Likes tea"},
    ("POST", "/v1/memories/search"): {"query": "tea"},
    ("POST", "/v1/memories/review"): {"accept": "all"},
    ("PATCH", "/v1/memories/{memory_id}"): {"content": "Likes coffee"},
    ("PATCH", "/v1/users/me/settings"): {"recall": False},
    ("POST", "/v1/messages"): {
        "model": "assistant",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": "hi"}],
    },
    ("POST", "/v1/messages/count_tokens"): {
        "model": "assistant",
        "messages": [{"role": "user", "content": "hi"}],
    },
    ("POST", "/v1/moderations"): {"input": "tea"},
    ("POST", "/v1/realtime/client_secrets"): {
        "session": {"type": "realtime", "model": "assistant"}
    },
    ("POST", "/v1/realtime/tool_calls"): {
        "model": "assistant",
        "call_id": "call_1",
        "name": "search_memory",
    },
    ("POST", "/v1/responses"): {
        "model": "assistant",
        "input": "hi",
        "safety_identifier": "{user}",
    },
    ("POST", "/v1/responses/input_tokens"): {
        "model": "assistant",
        "input": "hi",
        "safety_identifier": "{user}",
    },
    ("POST", "/v1/tasks"): {"agent": "assistant", "prompt": "hi"},
}


QUERIES = {
    ("GET", "/v1/memories/search"): {"q": "tea"},
    ("GET", "/v1/threads/{thread_id}/state"): {"agent": "assistant"},
}


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
        for field in {"safety_identifier", "user"} & (content or {}).keys():
            content = {**content, field: user}
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
