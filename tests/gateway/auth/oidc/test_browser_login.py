"""The login in a browser, and its session."""

import base64

import httpx2
import pytest

from gateway.auth import browser_session
from tests.access.authentication.identity_provider import (
    SECRET,
)
from tests.gateway.auth.oidc.logins import now
from tests.gateway.calls import PATH

pytestmark = pytest.mark.database

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
