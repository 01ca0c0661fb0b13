"""The user of a request to the memory API: query, header and body."""

import uuid

import pytest

from tests.gateway.calls import error
from tests.gateway.memory_client import MemoryClient, ok

pytestmark = pytest.mark.database

SHARED = """
providers: {openai: {base_url: "{fake}/v1"}}
agents: [{name: assistant, provider: openai, model: gpt-test}]
"""
BODILESS = [
    ("GET", "/v1/memories"),
    ("GET", f"/v1/memories/mem_{'0' * 32}"),
    ("DELETE", f"/v1/memories/mem_{'0' * 32}"),
    ("GET", "/v1/users/me/export"),
    ("DELETE", "/v1/users/me"),
    ("GET", "/v1/users/me/settings"),
    ("GET", "/v1/memories/search?q=x"),
    ("GET", f"/v1/memories/mem_{'0' * 32}/history"),
]
WITH_BODY = [
    ("POST", "/v1/memories", {"content": "x"}),
    ("PATCH", f"/v1/memories/mem_{'0' * 32}", {"content": "x"}),
    ("POST", "/v1/memories/search", {"query": "x"}),
    ("PATCH", "/v1/users/me/settings", {"recall": False}),
]
HEADER = "X-Coulisse-User"


@pytest.fixture
def saved(memory_client: MemoryClient) -> str:
    return memory_client.save("Plays the cello")["content"]


def listed(http, name: str | None = None, **more) -> list[str]:
    headers = {} if name is None else {HEADER: name}
    result = ok(http.get("/v1/memories", headers=headers, params=more))
    return [memory["content"] for memory in result["data"]]


def test_header_names_the_user(http, memory_client, saved):
    assert listed(http, memory_client.user) == [saved]
    assert listed(http, f"{memory_client.user}x") == []


def test_equal_user_names_are_accepted(http, memory_client, saved):
    assert listed(http, memory_client.user, safety_identifier=memory_client.user) == [
        saved
    ]
    twice = [memory_client.user, memory_client.user]
    assert listed(http, safety_identifier=twice) == [saved]


def test_user_uuid_may_be_written_in_two_ways(http):
    owner = uuid.uuid4()
    MemoryClient(http, str(owner)).save("Plays the cello")
    result = listed(http, owner.hex, safety_identifier=str(owner))
    assert result == ["Plays the cello"]


def test_user_header_accepts_any_letters(http, user):
    name = f"{user}-Zoë"
    MemoryClient(http, name).save("Plays the cello")
    for encoding in ("utf-8", "latin-1"):
        headers = {HEADER: name.encode(encoding)}
        result = ok(http.get("/v1/memories", headers=headers))
        assert len(result["data"]) == 1, encoding


@pytest.mark.parametrize(("method", "path"), BODILESS)
def test_header_or_body_and_query_conflict_is_refused(
    http, memory_client, other_client, method, path
):
    path += ("&" if "?" in path else "?") + f"safety_identifier={memory_client.user}"
    response = http.request(method, path, headers={HEADER: other_client.user})
    refusal = error(response, 400)
    assert refusal["code"] == "user_conflict"
    assert refusal["param"] == "safety_identifier"


def test_two_users_in_the_query_are_refused(http, memory_client, other_client):
    names = {"safety_identifier": [memory_client.user, other_client.user]}
    response = http.get("/v1/memories", params=names)
    assert error(response, 400)["code"] == "user_conflict"


@pytest.mark.parametrize(("method", "path", "body"), WITH_BODY)
@pytest.mark.parametrize("field", ["safety_identifier", "user"])
def test_body_naming_another_user_is_refused(
    memory_client, other_client, method, path, body, field
):
    refusal = memory_client.refused(
        method, path, body={**body, field: other_client.user}
    )
    assert refusal["code"] == "user_conflict"
    assert other_client.get(status="all")["data"] == []


@pytest.mark.parametrize(("method", "path"), BODILESS)
def test_request_without_user_is_refused(http, method, path):
    assert error(http.request(method, path), 400)["code"] == "user_required"


@pytest.mark.parametrize(("method", "path", "body"), WITH_BODY)
def test_body_without_user_is_refused(http, method, path, body):
    response = http.request(method, path, json=body)
    assert error(response, 400)["code"] == "user_required"


@pytest.mark.parametrize("name", ["", "  ", "x" * 513])
def test_invalid_user_name_in_query_is_refused(http, name):
    response = http.get("/v1/memories", params={"safety_identifier": name})
    assert error(response, 400)["param"] == "safety_identifier"


@pytest.mark.parametrize("name", ["", "x" * 513])
def test_invalid_user_name_in_header_is_refused(http, name):
    response = http.get("/v1/memories", headers={HEADER: name})
    assert error(response, 400)["param"] == "safety_identifier"


@pytest.mark.parametrize("fallback", ["users: shared", "default_user_id: kiosk"])
def test_request_without_user_uses_configured_user(http, configure, fallback):
    configure(SHARED + fallback)
    assert listed(http, fallback.split()[-1].replace("shared", "main")) == listed(http)
    ok(http.delete("/v1/users/me"), 202)


@pytest.mark.parametrize(("method", "path", "body"), WITH_BODY)
def test_unknown_parameter_is_refused(memory_client, method, path, body):
    refusal = memory_client.refused(method, path, body=body, usr="ada")
    assert (refusal["param"], refusal["code"]) == ("usr", "unknown_parameter")
