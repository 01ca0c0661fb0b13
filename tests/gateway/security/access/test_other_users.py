"""Access to the data of other users."""

import json

import httpx2
import pytest

from access.users import identity
from memory.models import Fact, StoredMessage, Thread
from tests.gateway import mcp_calls
from tests.gateway.calls import PATH
from tests.gateway.security.access.requests import chat_body, code

pytestmark = pytest.mark.database

# Access to other users.


@pytest.fixture
def foreign_ids(fake, http, foreign_headers, user) -> dict[str, str]:
    """One object of each kind that belongs to another user."""
    fake.reply("I will remember")
    answer = http.post(
        PATH, json=chat_body(metadata={"thread_id": "plans"}), headers=foreign_headers
    )
    assert answer.status_code == 200
    answer = http.post(
        "/v1/memories", json={"content": "Likes tea."}, headers=foreign_headers
    )
    assert answer.status_code == 201, answer.text
    turns = http.get("/v1/turns", headers=foreign_headers).json()["data"]
    return {"memory": answer.json()["id"], "turn": turns[0]["id"]}


def everything_of(user: str) -> tuple[int, int, int]:
    user_id = identity.derive_user_id(user)
    return (
        Thread.objects.filter(user_id=user_id).count(),
        StoredMessage.objects.filter(thread__user_id=user_id).count(),
        Fact.objects.filter(user_id=user_id).count(),
    )


def names_of(user: str) -> list[str]:
    return [f"{user}-b", str(identity.derive_user_id(f"{user}-b"))]


def test_token_cannot_name_another_user_in_a_chat(foreign_ids, http, own_headers, user):
    before = everything_of(f"{user}-b")
    for name in names_of(user):
        for more in (
            {"safety_identifier": name},
            {"user": name},
            {"safety_identifier": user, "user": name},
        ):
            answer = http.post(PATH, json=chat_body(**more), headers=own_headers)
            assert code(answer) == (403, "identity_mismatch"), more
    assert everything_of(f"{user}-b") == before


def test_metadata_and_headers_do_not_change_the_chat_user(
    foreign_ids, fake, http, own_headers, user
):
    before = everything_of(f"{user}-b")
    for name in names_of(user):
        fake.reply("hello")
        http.post(
            PATH,
            json=chat_body(
                metadata={"user_id": name, "principal": name, "thread_id": "plans"}
            ),
            headers={**own_headers, "X-Coulisse-User": name},
        )
    assert everything_of(f"{user}-b") == before
    assert "I will remember" not in json.dumps(fake.bodies)


ROUTES = [
    *[("GET", "/v1/memories"), ("GET", "/v1/turns"), ("GET", "/v1/mcp")],
    *[("GET", "/v1/users/me/export"), ("DELETE", "/v1/users/me")],
    ("GET", "/v1/users/me/settings"),
    *[("GET", "/v1/memories/{memory}"), ("DELETE", "/v1/memories/{memory}")],
    *[("GET", "/v1/memories/{memory}/history"), ("GET", "/v1/turns/{turn}")],
    ("DELETE", "/v1/mcp/x"),
]


WITH_BODIES = [
    ("POST", "/v1/memories", {"content": "Likes coffee."}),
    ("POST", "/v1/memories/search", {"query": "tea"}),
    ("PATCH", "/v1/memories/{memory}", {"content": "Likes coffee."}),
    ("PATCH", "/v1/users/me/settings", {"recall": False}),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_token_cannot_name_another_user_in_query_or_header(
    foreign_ids, http, own_headers, user, method, path
):
    before = everything_of(f"{user}-b")
    path = path.format(**foreign_ids)
    for name in names_of(user):
        answer = http.request(
            method, path, params={"safety_identifier": name}, headers=own_headers
        )
        assert code(answer) == (403, "identity_mismatch")
        headers = {**own_headers, "X-Coulisse-User": name}
        assert code(http.request(method, path, headers=headers))[0] == 403
    twice = httpx2.QueryParams(
        [("safety_identifier", user), ("safety_identifier", name)]
    )
    assert (
        http.request(method, path, params=twice, headers=own_headers).status_code == 403
    )
    assert everything_of(f"{user}-b") == before


@pytest.mark.parametrize(("method", "path", "message"), WITH_BODIES)
def test_token_cannot_name_another_user_in_a_body(
    foreign_ids, http, own_headers, user, method, path, message
):
    before = everything_of(f"{user}-b")
    path = path.format(**foreign_ids)
    for name in names_of(user):
        for more in (
            {"safety_identifier": name},
            {"user": name},
            {"safety_identifier": user, "user": name},
        ):
            answer = http.request(
                method, path, json={**message, **more}, headers=own_headers
            )
            assert code(answer) == (403, "identity_mismatch"), more
    assert everything_of(f"{user}-b") == before


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *[("GET", "/v1/memories/{memory}"), ("DELETE", "/v1/memories/{memory}")],
        *[("PATCH", "/v1/memories/{memory}"), ("GET", "/v1/turns/{turn}")],
        ("GET", "/v1/memories/{memory}/history"),
    ],
)
def test_ids_of_another_user_are_404(
    foreign_ids, http, own_headers, user, method, path
):
    before = everything_of(f"{user}-b")
    message = {"json": {"content": "Likes coffee."}} if method == "PATCH" else {}
    path = path.format(**foreign_ids)
    assert http.request(method, path, headers=own_headers, **message).status_code == 404
    for collection in ("memories", "turns"):
        after = foreign_ids["memory" if collection == "memories" else "turn"]
        answer = http.get(
            f"/v1/{collection}", params={"after": after}, headers=own_headers
        )
        assert answer.status_code in (400, 404)
    assert everything_of(f"{user}-b") == before


def test_own_data_contains_nothing_of_another_user(foreign_ids, http, own_headers):
    exported = http.get("/v1/users/me/export", headers=own_headers).text
    assert "tea" not in exported
    assert "I will remember" not in exported
    assert http.get("/v1/turns", headers=own_headers).json()["data"] == []
    found = http.post("/v1/memories/search", json={"query": "tea"}, headers=own_headers)
    assert found.json()["data"] == []


def test_mcp_clients_cannot_name_another_user(foreign_ids, running, own_headers, user):
    for name in names_of(user):
        for query, headers in (
            (f"?safety_identifier={name}", {}),
            ("", {"X_Coulisse_User": name}),
        ):
            answer = httpx2.post(
                f"{running}/mcp{query}",
                json=mcp_calls.call("search_memory", query="tea"),
                headers={
                    **own_headers,
                    "Accept": "application/json, text/event-stream",
                    **{k.replace("_", "-"): v for k, v in headers.items()},
                },
                verify=False,
            )
            assert "another user" in answer.json()["error"]["message"]


def test_thread_names_are_scoped_to_the_user(
    foreign_ids, fake, http, own_headers, user
):
    fake.reply("hello")
    answer = http.post(
        PATH, json=chat_body(metadata={"thread_id": "plans"}), headers=own_headers
    )
    assert answer.status_code == 200
    assert "I will remember" not in json.dumps(fake.bodies[-1])
    owners = Thread.objects.filter(name="plans").values_list("user_id", flat=True)
    assert {identity.derive_user_id(user), identity.derive_user_id(f"{user}-b")} <= set(
        owners
    )
