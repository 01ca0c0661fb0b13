"""Passwords and API tokens for `/v1` and `/mcp`, over real HTTP."""

import base64
from datetime import UTC, datetime, timedelta

import httpx2
import openai
import pytest
from django.contrib.auth.hashers import make_password
from mcp import MCPError

from access.authentication import basic_auth as passwords
from access.tokens import api_tokens
from access.users import identity
from memory.models import Thread
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway import mcp_calls
from tests.gateway.calls import PATH, basic, bearer, body
from tests.gateway.openai.test_failures import without_database

pytestmark = pytest.mark.database

TOKENS = CONFIG + "auth: {proxy: {tokens: {}}}\n"
TWO = """
auth:
  proxy:
    basic:
      - {username: ada, password: 'pâss wörd'}
      - {username: bob, password: password-of-bob}
    identity: IDENTITY
"""
BOUND = CONFIG + TWO.replace("IDENTITY", "from_credential")
LOOSE = CONFIG + TWO.replace("IDENTITY", "from_request")


@pytest.fixture
def http(running):
    with httpx2.Client(base_url=running, timeout=60, verify=False) as http:
        yield http


@pytest.fixture
def sdk(running):
    """Return a function that creates the official client with a key."""
    clients = []

    def client(key: str) -> openai.OpenAI:
        clients.append(
            openai.OpenAI(
                base_url=f"{running}/v1",
                api_key=key,
                max_retries=0,
                timeout=60,
                http_client=openai.DefaultHttpxClient(verify=False),
            )
        )
        return clients[-1]

    yield client
    for one in clients:
        one.close()


@pytest.fixture
def create_token(database, user):
    """Return a function that creates a token for the test's user."""

    def create_token(principal=user, **terms) -> str:
        return api_tokens.create_token("test", principal, by=ADA, **terms)[1]

    return create_token


def ask(client: openai.OpenAI, **more):
    messages = [{"role": "user", "content": "hi"}]
    return client.chat.completions.create(
        model=more.pop("model", "assistant"), messages=messages, **more
    )


def refusal(answer: httpx2.Response) -> tuple[int, str | None]:
    return answer.status_code, answer.json()["error"]["code"]


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
        *[("GET", "/v1/memories/x"), ("PATCH", "/v1/memories/x")],
        *[("DELETE", "/v1/memories/x"), ("GET", "/v1/memories/x/history")],
        *[
            ("POST", "/v1/memories/search"),
            ("GET", "/v1/turns"),
            ("GET", "/v1/turns/x"),
        ],
        *[("GET", "/v1/mcp"), ("DELETE", "/v1/mcp/x")],
        *[("GET", "/v1/users/me/export"), ("DELETE", "/v1/users/me")],
        *[("POST", "/v1/tasks"), ("GET", "/v1/tasks"), ("GET", "/v1/tasks/x")],
        *[("POST", "/v1/tasks/x/cancel"), ("POST", "/v1/feedback")],
        ("GET", "/v1/feedback/x"),
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
    digest = api_tokens.digest(secret)
    assert api_tokens.TOKEN_CACHE.get(digest) is not None
    assert http.post(PATH, json=requested, headers=bearer(secret)).status_code != 401
    api_tokens.revoke(str(row.id), by=ADA)
    answer = http.post(PATH, json=requested, headers=bearer(secret))
    assert refusal(answer) == (401, "invalid_api_key")
    assert api_tokens.TOKEN_CACHE.get(digest) is None


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


# Passwords.


def test_password_authenticates(configure, fake, http, user):
    configure(LOOSE)
    fake.reply("hello")
    answer = http.post(PATH, json=body(user), headers=basic("ada", "pâss wörd"))
    assert answer.status_code == 200


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_password_header_may_be_utf8_or_latin1(configure, http, encoding):
    configure(LOOSE)
    headers = basic("ada", "pâss wörd", encoding)
    assert http.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("ada", "password-of-bob"),
        basic("bob", ""),
        basic("eve", "password-of-bob"),
        bearer("password-of-bob"),
        {"Authorization": "Basic"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic " + "x" * 50_000},
        {"Authorization": "Basic " + base64.b64encode(b"bob").decode()},
    ],
)
def test_wrong_password_is_refused(configure, http, headers):
    configure(LOOSE)
    answer = http.get("/v1/models", headers=headers)
    assert answer.status_code == 401
    challenge = 'Basic realm="Coulisse", charset="UTF-8"'
    assert answer.headers["WWW-Authenticate"] == challenge


@pytest.mark.parametrize(
    ("auth", "headers", "wanted"),
    [
        (
            LOOSE,
            bearer("password-of-bob"),
            "send them with HTTP Basic authentication, not",
        ),
        (
            LOOSE,
            basic("bob", "changed-password"),
            "The username or the password is wrong",
        ),
        (TOKENS, basic("bob", "password-of-bob"), "`Authorization: Bearer KEY`, not"),
        (TOKENS, bearer("password-of-bob"), "The credential is not valid"),
    ],
)
def test_wrong_credential_scheme_names_the_expected_one(
    configure, http, auth, headers, wanted
):
    configure(auth)
    answer = http.get("/v1/models", headers=headers)
    assert refusal(answer) == (401, "invalid_api_key")
    assert wanted in answer.json()["error"]["message"]


def test_a_password_may_be_hashed(configure, http, monkeypatch):
    checked = []
    check = passwords.hashers.check_password

    def check_password(given, encoded):
        checked.append(given)
        return check(given, encoded)

    monkeypatch.setattr(passwords.hashers, "check_password", check_password)
    hashed = make_password("pass", hasher="pbkdf2_sha256")
    configure(CONFIG + f"auth: {{proxy: {{basic: {{password: '{hashed}'}}}}}}\n")
    assert http.get("/v1/models", headers=basic("admin", "pass")).status_code == 200
    assert http.get("/v1/models", headers=basic("admin", hashed)).status_code == 401
    assert checked == ["pass", hashed]
    for _ in range(5):
        answer = http.get("/v1/models", headers=basic("admin", "pass"))
        assert answer.status_code == 200
    # Each takes half a second.
    assert checked == ["pass", hashed]


def test_an_edit_changes_passwords_at_once(configure, http):
    configure(LOOSE)
    assert (
        http.get("/v1/models", headers=basic("bob", "password-of-bob")).status_code
        == 200
    )
    configure(
        LOOSE.replace("password: password-of-bob}", "password: changed-password}")
    )
    assert (
        http.get("/v1/models", headers=basic("bob", "password-of-bob")).status_code
        == 401
    )
    assert (
        http.get("/v1/models", headers=basic("bob", "changed-password")).status_code
        == 200
    )
    configure(CONFIG)
    assert http.get("/v1/models").status_code == 200


def test_bound_username_becomes_the_user(configure, fake, http):
    configure(BOUND)
    fake.reply("hello")
    requested = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}
    answer = http.post(PATH, json=requested, headers=basic("bob", "password-of-bob"))
    assert answer.status_code == 200
    assert Thread.objects.filter(user_id=identity.derive_user_id("bob")).exists()


def test_unbound_request_must_name_its_user(configure, http):
    configure(LOOSE)
    answer = http.get("/v1/mcp", headers=basic("bob", "password-of-bob"))
    assert refusal(answer) == (400, "user_required")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_origins_cannot_use_browser_password(configure, http, method):
    configure(LOOSE)
    path = "/v1/models" if method == "GET" else PATH
    headers = {**basic("bob", "password-of-bob"), "Origin": "https://evil.example.com"}
    answer = http.request(method, path, headers=headers)
    assert refusal(answer) == (403, "origin_not_allowed")
    headers["Origin"] = str(http.base_url).rstrip("/")
    assert http.request(method, path, headers=headers).status_code != 403
