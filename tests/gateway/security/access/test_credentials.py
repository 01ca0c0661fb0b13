"""Guessed credentials, their scopes, and injected texts."""

from hashlib import sha256
from urllib.parse import quote

import pytest

from access.tokens import api_tokens, token_secrets
from access.users import identity
from memory.models import Thread
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway.calls import PATH, bearer
from tests.gateway.security.access.requests import NASTY, chat_body, code

pytestmark = pytest.mark.database

# Guessing.


def test_token_lookup_compares_whole_digests(guarded, http, user, monkeypatch):
    _, secret = api_tokens.create_token("test", user, by=ADA)
    last = "A" if secret[-1] != "A" else "B"
    compared, find = [], api_tokens.verify

    def watched(digest):
        compared.append(digest)
        return find(digest)

    monkeypatch.setattr(api_tokens, "verify", watched)
    for guess in (secret[:-1] + last, token_secrets.PREFIX + "x" * 43):
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
        lambda s: token_secrets.digest(s),
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


def test_token_is_accepted_only_in_the_headers_of_the_two_apis(guarded, http, user):
    _, secret = api_tokens.create_token("test", user, by=ADA)
    # As Anthropic's clients send it.
    headers = {"x-api-key": secret}
    assert http.get("/v1/models", headers=headers).status_code == 200
    for headers in (
        {"x-api-key": secret[:-1]},
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
