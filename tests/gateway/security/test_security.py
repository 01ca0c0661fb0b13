"""Attempts to access another user's memory, or to call without a credential."""

import json
from hashlib import sha256
from urllib.parse import quote

import httpx2
import pytest

from access.tokens import api_tokens
from access.users import identity
from memory.extraction import notifier
from memory.models import Fact, StoredMessage, Thread
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway import mcp_calls
from tests.gateway.calls import PATH, bearer

pytestmark = pytest.mark.database

TOKENS = (
    CONFIG
    + """
auth:
  mcp_consumer_secret: consumer-secret
  admin: {basic: {password: open-the-studio}}
  proxy: {tokens: {}}
memory:
  user_state: {embed_with: {provider: hash}, learn_from: {provider: openai, model: m}}
telemetry: {sqlite: {show_to_users: true}}
"""
)

NASTY = [
    "' OR '1'='1",
    "'; DROP TABLE memory_thread; --",
    '" OR ""="',
    "1) UNION SELECT digest FROM access_token --",
    "%' OR '%'='",
    "\\'; SELECT pg_sleep(5); --",
    "ada\r\nSet-Cookie: owned=1",
    "ada\r\n\r\nHTTP/1.1 200 OK",
    "ada\x01eve",
    "../../etc/passwd",
    "${OPENAI_API_KEY}",
    "{{7*7}}",
    "<script>alert(1)</script>",
]


@pytest.fixture
def http(running):
    with httpx2.Client(base_url=running, timeout=60, verify=False) as http:
        yield http


@pytest.fixture
def guarded(configure, monkeypatch):
    # Extraction is not part of these tests.
    monkeypatch.setattr(notifier, "notify", lambda: None)
    configure(TOKENS)


@pytest.fixture
def own_headers(guarded, user) -> dict[str, str]:
    """The headers with a user's token."""
    return bearer(api_tokens.create_token("test", user, by=ADA)[1])


@pytest.fixture
def foreign_headers(guarded, user) -> dict[str, str]:
    """The headers of another user."""
    return bearer(api_tokens.create_token("test", f"{user}-b", by=ADA)[1])


def chat_body(**more) -> dict:
    messages = [{"role": "user", "content": "hi"}]
    return {"model": "assistant", "messages": messages, **more}


def code(answer: httpx2.Response) -> tuple[int, str | None]:
    return answer.status_code, answer.json()["error"]["code"]


# Guessing.


def test_token_lookup_compares_whole_digests(guarded, http, user, monkeypatch):
    _, secret = api_tokens.create_token("test", user, by=ADA)
    last = "A" if secret[-1] != "A" else "B"
    compared, find = [], api_tokens.find_by_digest

    def watched(digest, now):
        compared.append(digest)
        return find(digest, now)

    monkeypatch.setattr(api_tokens, "find_by_digest", watched)
    for guess in (secret[:-1] + last, api_tokens.PREFIX + "x" * 43):
        assert http.get("/v1/models", headers=bearer(guess)).status_code == 401
        assert compared.pop() == sha256(guess.encode()).hexdigest()
        assert not compared


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s[:-1],
        lambda s: s + "A",
        lambda s: s.upper(),
        lambda s: s.replace("sk-", "SK-"),
        lambda s: s + "\u200b",
        lambda s: s.replace("c", "\u0441", 1),
        lambda s: api_tokens.digest(s),
        lambda s: s.removeprefix("sk-coulisse-"),
        lambda s: f"{s},{s}",
        lambda s: f'"{s}"',
        lambda s: "%" * 55,
    ],
)
def test_altered_token_is_refused(guarded, http, user, change):
    _, secret = api_tokens.create_token("test", user, by=ADA)
    headers = {"Authorization": f"Bearer {change(secret)}".encode()}
    assert http.get("/v1/models", headers=headers).status_code == 401
    assert http.get("/v1/models", headers=bearer(secret)).status_code == 200


def test_token_is_accepted_only_as_one_authorization_header(guarded, http, user):
    _, secret = api_tokens.create_token("test", user, by=ADA)
    for headers in (
        {"x-api-key": secret},
        {"api-key": secret},
        {"Cookie": f"a={secret}"},
    ):
        assert http.get("/v1/models", headers=headers).status_code == 401
    assert http.get("/v1/models", params={"api_key": secret}).status_code == 401
    twice = [("Authorization", f"Bearer {secret}")] * 2
    assert http.get("/v1/models", headers=twice).status_code == 401


# Scopes.


def test_each_credential_opens_only_its_own_routes(guarded, http, own_headers):
    doors = {
        "api": ("GET", "/v1/models", own_headers),
        "studio": (
            "GET",
            "/admin/",
            {"Authorization": "Basic YWRtaW46b3Blbi10aGUtc3R1ZGlv"},
        ),
        "links": (
            "POST",
            "/mcp/x/connect-link?user_id=a",
            bearer("consumer-secret"),
        ),
    }
    for name, (method, path, _) in doors.items():
        for owner, (_, _, headers) in doors.items():
            status = http.request(method, path, headers=headers).status_code
            assert (status == 401) == (name != owner), (name, owner, status)


# Injection.


@pytest.mark.parametrize("nasty", NASTY)
def test_hostile_user_name_is_handled_as_a_plain_name(
    configure, fake, http, user, nasty
):
    configure(CONFIG)
    threads = Thread.objects.count()
    for field in ("safety_identifier", "user"):
        fake.reply("hello")
        name = f"{nasty}{user}"
        answer = http.post(PATH, json=chat_body(**{field: name}))
        assert answer.status_code == 200
        assert "owned" not in str(answer.headers)
    assert (
        Thread.objects.filter(user_id=identity.derive_user_id(name.strip())).count()
        == 1
    )
    assert Thread.objects.count() == threads + 1
    answer = http.get("/v1/memories", params={"safety_identifier": nasty + user})
    assert answer.status_code in (200, 404)


@pytest.mark.parametrize("nasty", NASTY)
def test_hostile_thread_agent_or_id_finds_nothing(fake, http, own_headers, nasty):
    fake.reply("hello")
    answer = http.post(
        PATH, json=chat_body(metadata={"thread_id": nasty}), headers=own_headers
    )
    assert answer.status_code in (200, 400)
    answer = http.post(PATH, json={**chat_body(), "model": nasty}, headers=own_headers)
    assert code(answer) == (404, "model_not_found")
    for collection in ("memories", "turns"):
        path = f"/v1/{collection}/{quote(nasty.replace('/', '-'), safe='')}"
        assert http.get(path, headers=own_headers).status_code in (400, 404)
    for param in ("after", "limit", "agent"):
        answer = http.get("/v1/turns", params={param: nasty}, headers=own_headers)
        assert answer.status_code in (200, 400, 404, 422)
        assert answer.status_code != 200 or answer.json()["data"] == []


@pytest.mark.parametrize("nasty", [n for n in NASTY if n.isprintable()])
def test_hostile_user_header_is_a_name_or_refused(configure, http, nasty):
    configure(CONFIG)
    answer = http.get("/v1/mcp", headers={"X-Coulisse-User": nasty})
    assert answer.status_code == 200
    answer = http.get("/v1/mcp", headers={"Authorization": nasty})
    assert code(answer) == (400, "user_required")


@pytest.mark.parametrize(
    "host",
    ["evil.example.com", "localhost.evil.com", "127.0.0.1.evil.com", "a.b@localhost.c"],
)
def test_foreign_host_is_refused_on_every_route(guarded, http, own_headers, host):
    for path in ("/v1/models", "/mcp", "/admin/", "/health/live"):
        answer = http.get(path, headers={**own_headers, "Host": host})
        assert code(answer) == (400, "host_not_allowed")


def test_host_header_is_not_reflected(guarded, http, own_headers):
    for path in ("/v1/models", "/admin/", "/v1/", "/nowhere"):
        answer = http.get(path, headers={**own_headers, "Host": "localhost:666"})
        assert ":666" not in answer.text
        assert ":666" not in str(answer.headers)


def test_megabyte_user_name_is_refused(configure, http):
    configure(CONFIG)
    huge = "x" * 1_000_000
    answer = http.post(PATH, json=chat_body(safety_identifier=huge))
    assert answer.status_code == 400
    assert len(answer.content) < 500
    answer = http.get("/v1/mcp", headers={"X-Coulisse-User": "x" * 50_000})
    assert answer.status_code in (400, 431)


@pytest.mark.parametrize(
    "more",
    [
        {"x" * 1_000_000: 1},
        {"metadata": {"x" * 1_000_000: "a"}},
        {"metadata": {"tokens_per_hour": "x" * 1_000_000}},
        {"model": "x" * 1_000_000},
    ],
)
def test_megabyte_values_are_not_repeated(configure, http, more):
    configure(CONFIG)
    answer = http.post(PATH, json=chat_body(**more))
    assert answer.status_code == 400
    assert len(answer.content) < 1000


@pytest.mark.parametrize(
    "confusable",
    [
        "\u0430da",
        "ad\u0430",
        "\uff41\uff44\uff41",
        "ada\u200b",
        "a\u0301da",
        "Ada",
        "ad a",
        "ada\u202e",
    ],
)
def test_confusable_names_are_different_users(configure, fake, http, user, confusable):
    configure(CONFIG)
    for name in (f"{user}-ada", f"{user}-{confusable}"):
        fake.reply("hello")
        assert (
            http.post(PATH, json=chat_body(safety_identifier=name)).status_code == 200
        )
    assert identity.derive_user_id(f"{user}-ada") != identity.derive_user_id(
        f"{user}-{confusable}"
    )
    for name in (f"{user}-ada", f"{user}-{confusable}"):
        assert Thread.objects.filter(user_id=identity.derive_user_id(name)).count() == 1


@pytest.mark.parametrize("confusable", ["\u0430da", "ad\u0430", "ada\u200b"])
def test_token_does_not_cover_a_confusable_name(guarded, http, user, confusable):
    headers = bearer(api_tokens.create_token("test", f"{user}-ada", by=ADA)[1])
    name = f"{user}-{confusable}"
    answer = http.post(PATH, json=chat_body(safety_identifier=name), headers=headers)
    assert code(answer) == (403, "identity_mismatch")


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
    *[("GET", "/v1/memories/{memory}"), ("DELETE", "/v1/memories/{memory}")],
    *[("GET", "/v1/memories/{memory}/history"), ("GET", "/v1/turns/{turn}")],
    ("DELETE", "/v1/mcp/x"),
]

WITH_BODIES = [
    ("POST", "/v1/memories", {"content": "Likes coffee."}),
    ("POST", "/v1/memories/search", {"query": "tea"}),
    ("PATCH", "/v1/memories/{memory}", {"content": "Likes coffee."}),
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
