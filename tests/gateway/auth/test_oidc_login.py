"""`auth.proxy.oidc`: bearer tokens and the browser login of a real provider."""

import base64
import json
import time

import httpx2
import jwt
import openai
import pytest

from access.audit import audit_log
from access.authentication import oidc_provider, oidc_tokens
from access.users import identity
from gateway.auth import browser_session
from memory.models import Thread
from tests.access.authentication.identity_provider import (
    CLIENT,
    SECRET,
    IdentityProvider,
)
from tests.conftest import CONFIG
from tests.gateway.calls import PATH, bearer

pytestmark = pytest.mark.database

YAML = (
    CONFIG
    + """
auth:
  proxy:
    oidc:
      issuer_url: ISSUER
      client_id: coulisse
      client_secret: client-secret
      redirect_url: HERE/v1/
    identity: from_credential
"""
)


@pytest.fixture
def idp():
    with IdentityProvider() as idp:
        yield idp
    oidc_tokens.get_provider.cache_clear()


@pytest.fixture
def guarded(running, configure, idp):
    """Return a function that configures the server for the provider."""

    def guarded(old: str = "", new: str = "") -> None:
        text = YAML.replace("ISSUER", idp.issuer).replace("HERE", running)
        assert old in text
        configure(text.replace(old, new) if old else text)

    guarded()
    return guarded


@pytest.fixture
def http(running):
    with httpx2.Client(base_url=running, timeout=60, verify=False) as http:
        yield http


def status(http, token: str) -> int:
    return http.get("/v1/models", headers=bearer(token)).status_code


def test_sdk_authenticates_with_the_providers_token(guarded, running, idp, fake):
    fake.reply("hello")
    with openai.OpenAI(
        base_url=f"{running}/v1",
        api_key=idp.sign(sub="grace"),
        http_client=openai.DefaultHttpxClient(verify=False),
    ) as client:
        messages = [{"role": "user", "content": "hi"}]
        reply = client.chat.completions.create(model="assistant", messages=messages)
    assert reply.choices[0].message.content == "hello"
    assert Thread.objects.filter(user_id=identity.derive_user_id("grace")).exists()


def test_audit_actor_is_the_oidc_subject(guarded, http, idp, user):
    headers = bearer(idp.sign(sub=user))
    assert http.get("/v1/users/me/export", headers=headers).status_code == 200
    [entry], _ = audit_log.page_entries(target=str(identity.derive_user_id(user)))
    assert entry.actor == f"oidc:{user}"


def test_provider_keys_are_fetched_once(guarded, http, idp):
    for number in range(5):
        assert status(http, idp.sign(sub=f"user-{number}")) == 200
    assert idp.hits == ["/realm/.well-known/openid-configuration", "/realm/keys"]


def test_elliptic_curve_keys_are_supported(guarded, http, idp):
    idp.add_elliptic("curve")
    assert status(http, idp.sign(kid="curve", alg="ES256")) == 200


def now(seconds: int) -> int:
    return int(time.time()) + seconds


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"aud": None},
        {"aud": ["another", "third"]},
        {"iss": "https://evil.example.com"},
        {"iss": None},
        {"exp": now(-60)},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": now(60_000)},
        {"iat": now(60_000)},
        {"sub": ""},
        {"sub": "  "},
        {"sub": None},
        {"sub": "x" * 600},
    ],
)
def test_token_for_another_audience_or_time_is_refused(guarded, http, idp, claims):
    answer = http.get("/v1/models", headers=bearer(idp.sign(**claims)))
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert answer.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'


@pytest.mark.parametrize(
    "claims",
    [
        lambda: {"aud": ["another", CLIENT]},
        lambda: {"exp": now(-10)},
        lambda: {"exp": str(now(60))},
        lambda: {"nbf": now(10)},
    ],
)
def test_token_with_several_audiences_or_small_skew_is_accepted(
    guarded, http, idp, claims
):
    assert status(http, idp.sign(**claims())) == 200


def test_audience_can_be_configured(guarded, http, idp):
    guarded("identity:", "  audience: the-api\n    identity:")
    assert status(http, idp.sign(aud="the-api")) == 200
    assert status(http, idp.sign(aud="another")) == 401


def part(content) -> str:
    text = json.dumps(content).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def forged(idp) -> list[str]:
    head, claims, signature = idp.sign().split(".")
    public = idp._jwk("one")
    pem = jwt.PyJWK(public, algorithm="RS256").key.public_bytes(*pem_format())
    secret = base64.b64encode(pem).decode()
    confused = jwt.encode(
        {"iss": idp.issuer, "aud": CLIENT, "sub": "ada", "exp": now(60)},
        secret,
        algorithm="HS256",
        headers={"kid": "one"},
    )
    return [
        f"{part({'alg': 'none'})}.{claims}.",
        f"{part({'alg': 'None', 'kid': 'one'})}.{claims}.{signature}",
        f"{part({'alg': 'HS256', 'kid': 'one'})}.{claims}.{signature}",
        f"{part({'alg': ['RS256'], 'kid': 'one'})}.{claims}.{signature}",
        f"{part({'alg': 'RS256', 'kid': {'x': 1}})}.{claims}.{signature[:-4]}AAAA",
        confused,
        f"{head}.{part({'sub': 'root'})}.{signature}",
        f"{head}.{claims}.",
        f"{head}.{claims}",
        "a.b.c",
        "x" * 17_000,
        "....",
        "é.é.é",
    ]


def pem_format():
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return Encoding.PEM, PublicFormat.SubjectPublicKeyInfo


def test_forged_tokens_are_refused(guarded, http, idp):
    assert status(http, idp.sign()) == 200
    for token in forged(idp):
        headers = {"Authorization": f"Bearer {token}".encode()}
        answer = http.get("/v1/models", headers=headers)
        assert answer.status_code == 401, token[:80]


def test_symmetric_key_in_the_key_set_is_ignored(guarded, http, idp):
    idp.extra_keys = [{"kty": "oct", "kid": "shared", "k": part("x"), "alg": "HS256"}]
    token = jwt.encode({}, b"x" * 32, algorithm="HS256", headers={"kid": "shared"})
    assert status(http, token) == 401
    assert status(http, idp.sign()) == 200


# Keys change, providers fail.


@pytest.mark.parametrize("key", [{"kty": []}, {"kty": "RSA", "crv": {}}, "RSA", {}])
def test_malformed_keys_are_skipped(guarded, http, idp, key):
    idp.extra_keys = [key]
    assert status(http, idp.sign()) == 200


def test_rotated_key_is_found(guarded, http, idp, monkeypatch):
    monkeypatch.setattr(oidc_provider, "MIN_REFRESH_SECONDS", 0.0)
    assert status(http, idp.sign()) == 200
    old = idp.sign(sub="old")
    idp.rotate()
    assert status(http, idp.sign(kid="two")) == 200
    assert status(http, old) == 401


def test_unknown_key_ids_do_not_cause_refetches(guarded, http, idp):
    idp.keys["lost"] = idp.keys["one"]
    lost = idp.sign(kid="lost")
    del idp.keys["lost"]
    assert [status(http, lost) for _ in range(5)] == [401] * 5
    assert len(idp.hits) == 2


def test_known_keys_stay_valid_when_provider_is_down(guarded, http, idp, monkeypatch):
    assert status(http, idp.sign()) == 200
    monkeypatch.setattr(oidc_provider, "MIN_REFRESH_SECONDS", 0.0)
    idp.status = 0
    assert status(http, idp.sign(sub="another")) == 200
    idp.rotate()
    # The key cannot be checked while the provider is down.
    answer = http.get("/v1/models", headers=bearer(idp.sign(kid="two")))
    assert answer.status_code == 503
    assert answer.json()["error"]["type"] == "service_unavailable"
    idp.status = 200
    assert status(http, idp.sign(kid="two")) == 200


@pytest.mark.parametrize("fault", [0, 404, 500])
def test_provider_failure_at_first_fetch_is_503(guarded, http, idp, fault):
    idp.status = fault
    assert status(http, idp.sign()) == 503


@pytest.mark.parametrize("url", ["http://[", "ftp://127.0.0.1/keys", "", "keys"])
def test_invalid_provider_endpoint_is_503(guarded, http, idp, url):
    idp.endpoints = {"jwks_uri": url}
    assert status(http, idp.sign()) == 503


def test_issuer_mismatch_is_503(guarded, http, idp):
    idp.issuer_says = "https://another.example.com"
    assert status(http, idp.sign(iss=idp.issuer_says)) == 503


# The login in a browser.


class Browser:
    """A browser that follows redirects between the server and the provider."""

    def __init__(self, here: str) -> None:
        self.http = httpx2.Client(
            base_url=here, headers={"Accept": "text/html"}, timeout=60, verify=False
        )

    def get(self, url: str) -> httpx2.Response:
        return self.http.get(url)

    def follow(self, answer: httpx2.Response, times: int) -> httpx2.Response:
        for _ in range(times):
            assert answer.status_code == 302, answer.text
            answer = self.http.get(answer.headers["Location"])
        return answer


@pytest.fixture
def browser(running, guarded):
    browser = Browser(running)
    yield browser
    browser.http.close()


def test_browser_logs_in_and_returns_to_its_page(browser, running, idp):
    idp.subject = "grace"
    answer = browser.follow(browser.get("/v1/models/tuned"), 4)
    assert answer.url == f"{running}/v1/models/tuned"
    assert answer.json()["id"] == "tuned"
    hits = len(idp.hits)
    assert browser.get("/v1/models").status_code == 200
    assert len(idp.hits) == hits
    # Its user is the logged-in one.
    answer = browser.get("/v1/mcp?safety_identifier=another")
    assert answer.status_code == 403
    assert browser.get("/v1/mcp?safety_identifier=grace").status_code == 200


def test_overlong_return_path_is_dropped_from_the_cookie(browser, running, idp):
    idp.subject = "g" * 500
    wanted = "/v1/models/tuned?" + "x" * 3000
    for _ in range(6):  # As many as are begun and not ended at a time.
        started = browser.follow(browser.get(wanted), 1)
        assert len(browser.http.cookies["coulisse_session"]) < 4096
    assert browser.follow(started, 3).url == f"{running}/v1/models"
    assert len(browser.http.cookies["coulisse_session"]) < 4096
    wanted = "/v1/models/tuned?" + "x" * 900
    browser.http.cookies.clear()
    for _ in range(6):
        started = browser.follow(browser.get(wanted), 1)
    assert browser.follow(started, 3).url == running + wanted
    assert len(browser.http.cookies["coulisse_session"]) < 4096


def test_session_cookie_is_http_only_and_encrypted(browser, idp):
    idp.subject = "grace"
    answer = browser.follow(browser.get("/v1/models"), 3)
    (cookie,) = answer.headers.get_list("Set-Cookie")
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    value = cookie.split(";")[0].partition("=")[2]
    assert b"grace" not in base64.urlsafe_b64decode(value + "==")


@pytest.mark.parametrize("methods", [None, ["client_secret_post"], ["none"]])
def test_client_authentication_methods_are_supported(browser, guarded, idp, methods):
    idp.auth_methods = methods
    if methods == ["none"]:
        guarded("client_secret: client-secret", "")
    assert browser.follow(browser.get("/v1/models"), 4).status_code == 200


def test_programs_are_not_redirected(guarded, http):
    assert http.get("/v1/models").status_code == 401
    answer = http.post(PATH, json={}, headers={"Accept": "text/html"})
    assert answer.status_code == 401


def test_denied_login_shows_the_escaped_reason(browser, idp):
    idp.denial = "not in the <group>"
    answer = browser.follow(browser.get("/v1/models"), 3)
    assert answer.status_code == 401
    assert "not in the &lt;group&gt;" in answer.text


@pytest.mark.parametrize(
    "claims",
    [{"nonce": "another"}, {"nonce": None}, {"aud": "another"}, {"exp": now(-100)}],
)
def test_id_token_of_another_login_is_refused(browser, idp, claims):
    idp.claims = claims
    answer = browser.follow(browser.get("/v1/models"), 3)
    assert answer.status_code == 401
    assert browser.get("/v1/models").status_code == 302


def test_login_started_in_another_browser_is_refused(browser, running, idp):
    consent = browser.follow(browser.get("/v1/models"), 2)
    stranger = Browser(running)
    answer = stranger.get(consent.headers["Location"])
    assert answer.status_code == 401
    assert "started in another browser" in answer.text
    stranger.http.close()


def test_authorization_code_is_accepted_once(browser, idp):
    consent = browser.follow(browser.get("/v1/models"), 2)
    assert browser.get(consent.headers["Location"]).status_code == 302
    assert browser.get(consent.headers["Location"]).status_code == 401


def test_mixed_up_issuer_is_refused(browser, idp):
    consent = browser.follow(browser.get("/v1/models"), 2)
    place = httpx2.URL(consent.headers["Location"])
    mixed = place.copy_set_param("iss", "https://evil.example.com")
    assert browser.get(str(mixed)).status_code == 401


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example.com/v1/x",
        "//evil.example.com/v1/x",
        "/admin/",
        "\\\\evil.example.com/v1/x",
        "/v1/",
        "javascript:alert(1)",
    ],
)
def test_redirect_to_another_site_is_refused(browser, wanted):
    answer = browser.follow(browser.get(f"/v1/?next={wanted}"), 2)
    assert answer.headers["Location"] == "/v1/models"


def logged_in(browser) -> str:
    browser.follow(browser.get("/v1/models"), 4)
    value = browser.http.cookies[browser_session.COOKIE_NAME]
    assert value
    return value


def test_session_ends_with_its_client_or_lifetime(browser, guarded, monkeypatch):
    logged_in(browser)
    guarded("client_id: coulisse", "client_id: other")
    assert browser.get("/v1/models").status_code == 302
    guarded()
    assert browser.get("/v1/models").status_code == 200
    for name in ("IDLE_SECONDS", "MAX_AGE_SECONDS"):
        with monkeypatch.context() as patched:
            patched.setattr(browser_session, name, -1)
            assert browser.get("/v1/models").status_code == 302


def test_session_in_use_is_extended(browser, monkeypatch):
    old = logged_in(browser)
    assert "Set-Cookie" not in browser.get("/v1/models").headers
    monkeypatch.setattr(browser_session, "RENEW_AFTER_SECONDS", -1)
    assert "Set-Cookie" in browser.get("/v1/models").headers
    assert browser.http.cookies[browser_session.COOKIE_NAME] != old


@pytest.mark.parametrize("change", [lambda v: v[:-3] + "AAA", lambda v: "x" * 9000])
def test_invalid_session_cookie_is_ignored(browser, change):
    value = logged_in(browser)
    browser.http.cookies.clear()
    browser.http.cookies.set(browser_session.COOKIE_NAME, change(value))
    assert browser.get("/v1/models").status_code == 302


def test_other_origins_cannot_use_the_session(browser, fake, running):
    logged_in(browser)
    requested = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}
    headers = {"Origin": "http://evil.localhost"}
    answer = browser.http.post(PATH, json=requested, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "origin_not_allowed"
    fake.reply("hello")
    answer = browser.http.post(PATH, json=requested, headers={"Origin": running})
    assert answer.status_code == 200


def test_client_secret_is_not_in_error_pages(browser, idp):
    idp.status = 500
    answer = browser.follow(browser.get("/v1/models"), 1)
    assert answer.status_code == 503
    assert SECRET not in answer.text
