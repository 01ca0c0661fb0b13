"""Logins and sessions of `auth.admin.oidc`, with a real identity provider."""

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, OperationalError, connection
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from access.authentication import accounts, oidc_tokens, roles
from access.authentication.oidc_login import OidcBackend
from access.authentication.roles import Role
from gateway.auth.browser_session import ApiSession
from studio.live import websocket
from studio.security.sessions import SessionStore
from studio.server import access_middleware
from tests.access.authentication.identity_provider import IdentityProvider
from tests.conftest import CONFIG
from tests.gateway.auth.oidc.test_browser_login import Browser

pytestmark = pytest.mark.database

BASIC = CONFIG + "auth: {admin: {basic: {password: open-the-studio}}}\n"
OIDC = (
    CONFIG
    + """
auth:
  mcp_consumer_secret: consumer-secret
  admin:
    oidc:
      issuer_url: ISSUER
      client_id: coulisse
      client_secret: client-secret
      redirect_url: HERE/admin/
      scopes: [email]
"""
)


@pytest.fixture
def idp():
    with IdentityProvider() as idp:
        yield idp
    oidc_tokens.get_provider.cache_clear()


@pytest.fixture
def browser(running, configure, idp):
    configure(OIDC.replace("ISSUER", idp.issuer).replace("HERE", running))
    browser = Browser(running)
    yield browser
    browser.http.close()


def test_oidc_user_becomes_administrator(browser, idp, user):
    idp.subject = user
    idp.claims = {"email": "ada@example.com", "name": "Ada L."}
    response = browser.follow(browser.get("/admin/?page=2"), 3)
    assert response.url.raw_path == b"/admin/?page=2"
    assert response.status_code == 200
    row = User.objects.get(username=f"oidc:{user}")
    assert (row.email, row.first_name) == ("ada@example.com", "Ada L.")
    assert row.is_staff
    assert roles.role_of(row) is Role.OPERATOR
    assert not row.has_usable_password()
    hits = len(idp.hits)
    assert browser.get("/admin/").status_code == 200
    assert len(idp.hits) == hits


def test_session_opens_the_live_websocket(browser, idp, user, running):
    address = running.replace("http://", "ws://") + "/admin/live/events"
    with pytest.raises(InvalidStatus), connect(address, origin=running):
        pass
    idp.subject = user
    browser.follow(browser.get("/admin/"), 3)
    cookie = {"Cookie": f"coulisse_studio={browser.http.cookies['coulisse_studio']}"}
    with connect(address, origin=running, additional_headers=cookie) as ws:
        assert "snapshot" in ws.recv(timeout=60)
    with (
        pytest.raises(InvalidStatus),
        connect(address, origin="https://x.test", additional_headers=cookie),
    ):
        pass


def test_api_session_cookie_does_not_open_the_studio(browser, idp, user):
    idp.subject = user
    browser.follow(browser.get("/admin/"), 3)
    value = browser.http.cookies["coulisse_studio"]
    browser.http.cookies.clear()
    browser.http.cookies.set("coulisse_session", value)
    assert browser.get("/admin/").status_code == 302
    browser.http.cookies.set("coulisse_studio", value)
    assert browser.get("/admin/").status_code == 200


@pytest.mark.parametrize(
    ("sealed_by", "status"), [(SessionStore, 200), (ApiSession, 302)]
)
def test_session_encrypted_for_the_api_does_not_open_the_studio(
    browser, idp, user, sealed_by, status
):
    idp.subject = user
    browser.follow(browser.get("/admin/"), 3)
    content = SessionStore(browser.http.cookies["coulisse_studio"])
    sealed = sealed_by()
    sealed.update(dict(content.items()))
    sealed.save()
    browser.http.cookies.clear()
    browser.http.cookies.set("coulisse_studio", sealed.session_key)
    assert browser.get("/admin/").status_code == status


def test_session_cookie_is_scoped_to_the_studio(browser, idp, user):
    idp.subject = user
    response = browser.follow(browser.get("/admin/"), 2)
    cookies = response.headers.get_list("Set-Cookie")
    assert cookies[0].startswith("coulisse_")
    for cookie in cookies:
        assert {"HttpOnly", "SameSite=Lax", "Path=/admin/"} <= set(cookie.split("; "))


def test_session_cookie_is_secure_over_https(browser, idp, configure, running):
    text = OIDC.replace("ISSUER", idp.issuer)
    configure(text.replace("HERE", "https://studio.example.com"))
    (cookie,) = browser.get("/admin/").headers.get_list("Set-Cookie")
    assert "Secure" in cookie


def test_session_ends_with_its_client_or_lifetime(
    browser, idp, user, configure, running, monkeypatch
):
    idp.subject = user
    browser.follow(browser.get("/admin/"), 3)
    text = OIDC.replace("ISSUER", idp.issuer).replace("HERE", running)
    configure(text.replace("client_id: coulisse", "client_id: another"))
    assert browser.get("/admin/").status_code == 302
    configure(text)
    assert browser.get("/admin/").status_code == 200
    monkeypatch.setattr(access_middleware, "MAX_AGE_SECONDS", -1)
    assert browser.get("/admin/").status_code == 302


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer consumer-secret"},
        {"Authorization": "Basic YWRtaW46YWRtaW4="},
    ],
)
def test_no_header_replaces_a_login(browser, headers):
    assert browser.http.get("/admin/", headers=headers).status_code == 302
    assert browser.http.post("/admin/", headers=headers).status_code in (401, 403)


def test_oidc_bearer_token_is_refused(browser, idp):
    headers = {"Authorization": f"Bearer {idp.sign()}"}
    assert browser.http.get("/admin/", headers=headers).status_code == 302


def test_database_outage_does_not_end_a_session(browser, idp, user, monkeypatch):
    idp.subject = user
    browser.follow(browser.get("/admin/"), 3)

    def gone(*given: object) -> User:
        raise OperationalError

    monkeypatch.setattr(OidcBackend, "get_user", gone)
    page = browser.get("/admin/")
    assert page.status_code == 503
    assert "The database is unavailable" in page.text
    json_response = browser.http.get("/admin/", headers={"Accept": "application/json"})
    assert json_response.status_code == 503
    monkeypatch.undo()
    assert browser.get("/admin/").status_code == 200


def test_provider_outage_is_503(browser, idp):
    idp.status = 0
    assert browser.get("/admin/").status_code == 503


# Accounts.


@pytest.mark.usefixtures("database")
def test_account_is_created_once_per_person(user):
    one = accounts.get_or_create_user(user)
    assert accounts.get_or_create_user(user, email="a@example.com").pk == one.pk
    assert (
        accounts.get_or_create_user("x" * 300).pk
        == accounts.get_or_create_user("x" * 300).pk
    )
    assert User.objects.get(pk=one.pk).email == "a@example.com"


@pytest.mark.usefixtures("database")
def test_new_account_has_a_role_from_its_first_request(user):
    together = threading.Barrier(4)

    def enter() -> Role | None:
        together.wait()
        try:
            return roles.role_of(accounts.get_or_create_user(user, role=Role.VIEWER))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        found = [each.result() for each in [threads.submit(enter) for _ in range(4)]]
    assert found == [Role.VIEWER] * 4


@pytest.mark.usefixtures("database")
def test_account_without_a_role_is_not_created(user, monkeypatch):
    def fail(*given: object) -> None:
        raise DatabaseError

    monkeypatch.setattr(roles, "set_role", fail)
    with pytest.raises(DatabaseError):
        accounts.get_or_create_user(user)
    monkeypatch.undo()
    assert roles.role_of(accounts.get_or_create_user(user)) is Role.OPERATOR


# Sessions.


def test_new_oidc_account_gets_the_configured_role(
    browser, idp, user, configure, running
):
    text = OIDC.replace("ISSUER", idp.issuer).replace("HERE", running)
    configure(text.replace("  admin:\n", "  admin:\n    newcomers: viewer\n"))
    idp.subject = user
    page = browser.follow(browser.get("/admin/tokens"), 3)
    assert page.status_code == 200
    assert "Create a token" not in page.text
    created = {"label": "x", "principal": "p"}
    refusal_page = browser.http.post("/admin/tokens", json=created)
    assert refusal_page.status_code == 403
    assert "needs the permission to add API tokens" in refusal_page.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Referer": "https://evil.example/"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
def test_cross_site_request_with_session_cookie_is_refused(browser, idp, user, headers):
    idp.subject = user
    browser.follow(browser.get("/admin/"), 3)
    forged = {"label": "forged", "principal": "p"}
    response = browser.http.post("/admin/tokens", data=forged, headers=headers)
    assert response.status_code == 403


def test_deactivated_account_cannot_use_the_playground(browser, idp, user, fake):
    idp.subject = user
    browser.follow(browser.get("/admin/"), 3)
    User.objects.filter(username=f"oidc:{user}").update(is_active=False)
    assert browser.get("/admin/").status_code == 403
    message = {"agent": "assistant", "user": user, "message": "Hello?"}
    response = browser.http.post("/admin/playground/turns", json=message)
    assert response.status_code == 403
    assert fake.is_idle


def test_logout_ends_the_session_for_every_cookie_holder(browser, idp, user):
    idp.subject = user
    page = browser.follow(browser.get("/admin/"), 3)
    cookie = browser.http.cookies["coulisse_studio"]
    log_out(browser, page)
    assert browser.get("/admin/").status_code == 302
    browser.http.cookies.clear()
    browser.http.cookies.set("coulisse_studio", cookie)
    assert browser.get("/admin/").status_code == 302
    browser.http.cookies.clear()
    assert browser.follow(browser.get("/admin/"), 3).status_code == 200


def test_logout_ends_only_its_own_session(browser, idp, user, running):
    other = Browser(running)
    for each, subject in ((browser, user), (other, f"other-{user}")):
        idp.subject = subject
        page = each.follow(each.get("/admin/"), 3)
    log_out(other, page)
    other.http.close()
    assert browser.get("/admin/").status_code == 200


def test_session_of_reactivated_account_stays_ended(browser, idp, user):
    idp.subject = user
    browser.follow(browser.get("/admin/"), 3)
    for is_active in (False, True):
        account = User.objects.get(username=f"oidc:{user}")
        assert accounts.change_account(account, is_active=is_active)
    assert browser.get("/admin/").status_code == 302


def test_session_ends_when_the_account_is_deleted(browser, idp, user):
    idp.subject = user
    browser.follow(browser.get("/admin/"), 3)
    User.objects.get(username=f"oidc:{user}").delete()
    assert browser.get("/admin/").status_code == 302


def test_logout_does_not_end_basic_authentication(configure, http):
    """A browser sends it by itself: there is no session to end."""
    configure(BASIC)
    http.auth = ("admin", "open-the-studio")
    log_out(http, http.get("/admin/"))
    assert http.get("/admin/").status_code == 200


def log_out(browser: Any, page: httpx2.Response) -> None:
    """Press the button of a page."""
    http = getattr(browser, "http", browser)
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    response = http.post(
        "/admin/logout/",
        data={"csrfmiddlewaretoken": token[1]},
        headers={"Origin": str(http.base_url).rstrip("/")},
    )
    assert response.headers["Location"] == "/admin/"


def test_websocket_closes_when_the_role_is_removed(
    browser, idp, user, running, monkeypatch
):
    monkeypatch.setattr(websocket, "RECHECK_SECONDS", 0.05)
    idp.subject = user
    browser.follow(browser.get("/admin/"), 3)
    cookie = {"Cookie": f"coulisse_studio={browser.http.cookies['coulisse_studio']}"}
    address = running.replace("http://", "ws://") + "/admin/live/events"
    with connect(address, origin=running, additional_headers=cookie) as ws:
        assert "snapshot" in ws.recv(timeout=60)
        User.objects.get(username=f"oidc:{user}").groups.clear()
        with pytest.raises(ConnectionClosed) as closed:
            list(iter(lambda: ws.recv(timeout=60), None))
    assert closed.value.rcvd.code == websocket.CLOSE_FORBIDDEN


@pytest.mark.parametrize(
    ("seconds", "status"),
    [(-8 * 3600 - 5, 302), (-8 * 3600 + 300, 200), (30, 200), (3600, 302)],
)
def test_session_ends_eight_hours_after_its_last_use(
    browser, idp, user, seconds, status
):
    idp.subject = user
    browser.follow(browser.get("/admin/"), 3)
    content = json.dumps(dict(SessionStore(taken(browser)).items())).encode()
    box = SessionStore()._fernet()
    sealed = box.encrypt_at_time(content, int(time.time()) + seconds)
    browser.http.cookies.set("coulisse_studio", sealed.decode())
    assert browser.get("/admin/").status_code == status


def taken(browser: Browser) -> str:
    """Return the cookie of a session, which the browser has no more."""
    value = browser.http.cookies["coulisse_studio"]
    browser.http.cookies.clear()
    return value
