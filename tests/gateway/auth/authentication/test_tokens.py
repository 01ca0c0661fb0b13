"""API tokens at `/v1` and `/mcp`."""

from datetime import UTC, datetime, timedelta

import openai
import pytest
from mcp import MCPError

from access.models import ApiToken
from access.tokens import api_tokens, token_secrets
from access.tokens.token_cache import TOKEN_CACHE
from access.users import identity
from memory.models import Thread
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway import mcp_calls
from tests.gateway.auth.authentication.credentials import TOKENS, ask, refusal
from tests.gateway.calls import PATH, bearer, body
from tests.gateway.openai.test_failures import without_database

pytestmark = pytest.mark.database

# Clients that stay open until the end of the test.


def test_key_is_ignored_without_authentication(configure, fake, sdk, user):
    configure(CONFIG)
    fake.reply("hello")
    assert ask(sdk("sk-coulisse-nobody"), safety_identifier=user)


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/v1/openapi.json"])
def test_public_routes_stay_open(configure, http, path):
    configure(TOKENS)
    assert http.get(path).status_code == 200


# API tokens.


def test_token_authenticates_every_api_as_its_user(
    configure, fake, sdk, create_token, user
):
    configure(TOKENS)
    client = sdk(create_token())
    fake.reply("hello")
    assert ask(client).choices[0].message.content == "hello"
    assert [model.id for model in client.models.list()][:1] == ["assistant"]
    assert Thread.objects.filter(user_id=identity.derive_user_id(user)).exists()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *[("GET", "/v1/models"), ("GET", "/v1/models/assistant")],
        *[("POST", PATH), ("GET", "/v1/memories"), ("POST", "/v1/memories")],
        *[("GET", "/v1/memories/review"), ("POST", "/v1/memories/review")],
        *[("GET", "/v1/memories/x"), ("PATCH", "/v1/memories/x")],
        *[("DELETE", "/v1/memories/x"), ("GET", "/v1/memories/x/history")],
        *[
            ("POST", "/v1/memories/search"),
            ("GET", "/v1/turns"),
            ("GET", "/v1/turns/x"),
        ],
        *[("GET", "/v1/mcp"), ("DELETE", "/v1/mcp/x")],
        *[("GET", "/v1/users/me/export"), ("DELETE", "/v1/users/me")],
        *[(method, "/v1/users/me/settings") for method in ("GET", "PATCH")],
        *[("POST", "/v1/tasks"), ("GET", "/v1/tasks"), ("GET", "/v1/tasks/x")],
        *[("POST", "/v1/tasks/x/cancel"), ("POST", "/v1/feedback")],
        *[("GET", "/v1/feedback/x"), ("POST", "/v1/responses")],
        *[("GET", "/v1/files"), ("GET", "/v1/conversations/x")],
        *[
            ("GET", "/v1/threads"),
            ("DELETE", "/v1/threads/x"),
            ("POST", "/v1/threads/x/end"),
        ],
        *[("GET", "/v1/threads/x/state"), ("PATCH", "/v1/threads/x/state")],
        *[("GET", "/v1/chat/completions"), ("GET", "/v1/chat/completions/x")],
        *[("POST", "/v1/chat/completions/x"), ("DELETE", "/v1/chat/completions/x")],
        *[
            ("POST", "/v1/completions"),
            ("POST", "/v1/embeddings"),
            ("POST", "/v1/moderations"),
            ("POST", "/v1/realtime/client_secrets"),
            ("POST", "/v1/realtime/tool_calls"),
        ],
    ],
)
@pytest.mark.parametrize("headers", [{}, bearer(f"sk-coulisse-{'x' * 43}")])
def test_protected_routes_refuse_missing_credentials(
    configure, http, method, path, headers
):
    configure(TOKENS)
    answer = http.request(
        method,
        path,
        headers={"Content-Type": "application/json", **headers},
        content=b"{}",
    )
    code = "invalid_api_key" if headers else None
    assert refusal(answer) == (401, code)
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_protected_routes_above_are_complete(configure, http):
    tried = {
        mark.args[1][index][1].split("/v1/")[-1].split("/")[0]
        for mark in test_protected_routes_refuse_missing_credentials.pytestmark
        if mark.args and mark.args[0] == ("method", "path")
        for index in range(len(mark.args[1]))
    }
    paths = http.get("/v1/openapi.json").json()["paths"]
    # Errors of messages have another shape; tests/gateway/anthropic has them.
    tried |= {"messages"}
    assert {path.split("/v1/")[-1].split("/")[0] for path in paths} <= tried


def test_sdk_raises_authentication_error_for_wrong_key(configure, sdk):
    configure(TOKENS)
    with pytest.raises(openai.AuthenticationError) as caught:
        ask(sdk("sk-coulisse-wrong"))
    assert caught.value.code == "invalid_api_key"


def test_a_revoked_token_is_refused_at_once(configure, fake, http, create_token):
    configure(TOKENS)
    row, secret = api_tokens.create_token("test", "somebody", by=ADA)
    fake.reply("hello")
    requested = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}
    assert http.post(PATH, json=requested, headers=bearer(secret)).status_code == 200
    api_tokens.revoke(str(row.id), by=ADA)
    for _ in range(2):
        answer = http.post(PATH, json=requested, headers=bearer(secret))
        assert refusal(answer) == (401, "invalid_api_key")
    assert http.get("/v1/models", headers=bearer(secret)).status_code == 401


@pytest.mark.parametrize(
    "requested",
    [
        {"model": "nobody", "messages": [{"role": "user", "content": "hi"}]},
        {"model": "assistant"},
        {"model": "assistant", "messages": [], "safety_identifier": "another"},
    ],
)
def test_revoked_token_gets_same_error_as_wrong_key(configure, fake, http, requested):
    configure(TOKENS)
    row, secret = api_tokens.create_token("test", "somebody", by=ADA)
    assert http.get("/v1/models", headers=bearer(secret)).status_code == 200
    digest = token_secrets.digest(secret)
    assert TOKEN_CACHE.get(digest) is not None
    assert http.post(PATH, json=requested, headers=bearer(secret)).status_code != 401
    api_tokens.revoke(str(row.id), by=ADA)
    answer = http.post(PATH, json=requested, headers=bearer(secret))
    assert refusal(answer) == (401, "invalid_api_key")
    assert TOKEN_CACHE.get(digest) is None


@pytest.mark.parametrize(
    ("method", "path", "fields"),
    [
        ("GET", PATH, None),
        ("POST", "/v1/completions", {"model": "assistant", "prompt": "hi"}),
        ("POST", "/v1/responses", {"model": "assistant", "input": "hi"}),
        (
            "POST",
            "/v1/messages",
            {
                "model": "assistant",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": "hi"}],
            },
        ),
    ],
)
def test_revoked_token_is_refused_though_it_is_cached(
    configure, fake, http, method, path, fields
):
    configure(TOKENS)
    row, secret = api_tokens.create_token("test", "somebody", by=ADA)

    def ask():
        return http.request(method, path, json=fields, headers=bearer(secret))

    assert ask().status_code == 200
    assert ask().status_code == 200
    assert TOKEN_CACHE.get(token_secrets.digest(secret)) is not None
    sent = len(fake.requests)
    api_tokens.revoke(str(row.id), by=ADA)
    assert ask().status_code == 401
    assert len(fake.requests) == sent


def test_imported_key_of_another_server_authenticates(
    configure, fake, sdk, http, user, create_token
):
    configure(TOKENS)
    create_token()
    for key, status in (("sk-K3vWq9ZrT1bXyM7n.LpA2g", 200), ("sk-1234", 401)):
        row = ApiToken.objects.get(principal=user)
        row.digest = token_secrets.digest(key)
        row.save()
        assert http.get("/v1/models", headers=bearer(key)).status_code == status


def test_an_expired_token_is_refused(configure, http):
    configure(TOKENS)
    expiry = datetime.now(UTC) - timedelta(hours=2)
    _, secret = api_tokens.create_token(
        "test", "somebody", expires_at=expiry + timedelta(hours=1), now=expiry, by=ADA
    )
    assert http.get("/v1/models", headers=bearer(secret)).status_code == 401


def test_a_token_for_some_agents_sees_no_others(
    configure, fake, http, create_token, user
):
    configure(TOKENS)
    headers = bearer(create_token(agents=["tuned", "gone"]))
    listed = http.get("/v1/models", headers=headers).json()["data"]
    assert [model["id"] for model in listed] == ["tuned"]
    assert http.get("/v1/models/tuned", headers=headers).status_code == 200
    answer = http.get("/v1/models/assistant", headers=headers)
    assert refusal(answer) == (404, "model_not_found")
    assert "assistant" not in answer.json()["error"]["message"].replace(
        "'assistant' does not exist", ""
    )
    answer = http.post(PATH, json=body(user), headers=headers)
    assert refusal(answer) == (404, "model_not_found")
    fake.reply("hello")
    answer = http.post(PATH, json=body(user, agent="tuned"), headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer  ,",
        "Basic eDp5",
        "sk-coulisse-x",
        "Bearer a b",
        "Bearer " + "x" * 30_000,
        "Digest username=x",
        "Bearer \xe4\xf6",
    ],
)
def test_malformed_authorization_header_is_refused(configure, http, header):
    configure(TOKENS)
    answer = http.get("/v1/models", headers={"Authorization": header.encode("latin-1")})
    assert answer.status_code == 401


@pytest.mark.parametrize("is_known", [True, False])
def test_database_outage_is_not_reported_as_wrong_key(
    configure, http, create_token, is_known
):
    configure(TOKENS)
    headers = bearer(create_token())
    if is_known:
        assert http.get("/v1/models", headers=headers).status_code == 200
    with without_database():
        for method, path in (("GET", "/v1/models"), ("POST", PATH), ("POST", "/mcp")):
            answer = http.request(method, path, json=body("x"), headers=headers)
            assert answer.status_code == 503, path
    assert http.get("/v1/models", headers=headers).status_code == 200


# Tokens at /mcp.


@pytest.fixture
def limited(create_token) -> str:
    return create_token(agents=["assistant"])


async def test_mcp_client_authenticates_with_token(configure, running, fake, limited):
    configure(TOKENS)
    fake.reply("hello")
    async with mcp_calls.connected(running, None, **bearer(limited)) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["assistant"]
        message = await client.call_tool("assistant", {"message": "hi"})
        assert message.structured_content["reply"] == "hello"


async def test_mcp_client_learns_that_a_key_is_required(configure, running):
    configure(TOKENS)
    with pytest.raises(BaseExceptionGroup) as caught:
        async with mcp_calls.connected(running, None):
            pass
    assert caught.group_contains(MCPError, match="send your API key as")


@pytest.mark.parametrize("headers", [{}, bearer("sk-coulisse-wrong")])
def test_mcp_refuses_missing_or_wrong_key(configure, http, headers):
    configure(TOKENS)
    answer = http.post("/mcp", json=mcp_calls.rpc("tools/list"), headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["error"]["data"]["code"] == (
        "invalid_api_key" if headers else None
    )
