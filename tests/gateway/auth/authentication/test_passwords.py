"""Passwords at `/v1`."""

import base64

import pytest
from django.contrib.auth.hashers import make_password

from access.authentication import basic_auth as passwords
from access.users import identity
from memory.models import Thread
from tests.conftest import CONFIG
from tests.gateway.auth.authentication.credentials import BOUND, LOOSE, TOKENS, refusal
from tests.gateway.calls import PATH, basic, bearer, body

pytestmark = pytest.mark.database

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
