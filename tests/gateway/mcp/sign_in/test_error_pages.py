"""What browsers see when a sign-in fails."""

from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from access.users import identity
from tests.gateway.calls import error
from tests.gateway.mcp.sign_in.browser_pages import (
    CONFIG,
    is_connected,
    leave,
    link,
    page,
)
from tests.mcp_bridge.oauth.scripted_oauth_server import ISSUER
from turns.tools.mcp_sessions import TOKEN_MANAGER

pytestmark = pytest.mark.database

# Error pages.


def test_used_link_is_gone(server, browser, user):
    address = link(user)
    browser.get(address)
    result = page(browser.get(address), 410)
    assert "already used" in result
    assert "was not connected." in result
    assert "ask for a new link" in result


def test_expired_link_is_gone(server, browser, user, monkeypatch):
    address = link(user)
    later = TOKEN_MANAGER._clock().replace(year=2100)
    monkeypatch.setattr(
        "gateway.mcp_oauth.sign_in_views.SIGN_IN_FLOW._clock", lambda: later
    )
    assert "expired" in page(browser.get(address), 410)


@pytest.mark.parametrize("query", ["", "?token=", "?token=abc", "?token=%ff%01"])
def test_invalid_link_is_refused(server, browser, query):
    result = page(browser.get(f"/mcp/notes/connect{query}"), 400)
    assert "not valid" in result
    assert "ask for a new link" in result


def test_logged_in_user_cannot_use_another_users_link(
    running, configure, protected, user
):
    logins = (
        f"[{{username: {user}, password: password-of-user}}, "
        "{username: eve, password: password-of-eve}]"
    )
    text = CONFIG.replace("NOTES", protected.url).replace("BASE", running)
    proxy = f"{{basic: {logins}, identity: from_credential}}"
    configure(text.replace("{mcp_consumer_secret: SECRET}", f"{{proxy: {proxy}}}"))
    # A link suffices without a login.
    eve, owner = ("eve", "password-of-eve"), (user, "password-of-user")
    for login, status in ((eve, 403), (None, 302), (owner, 302)):
        answer = httpx2.get(link(user), auth=login, verify=False)
        assert answer.status_code == status, login


@pytest.mark.parametrize("by", ["query", "header"])
def test_link_of_another_user_is_refused(server, browser, user, by):
    other = f"{user}-b"
    if by == "query":
        answer = browser.get(f"{link(user)}&safety_identifier={other}")
    else:
        answer = browser.get(link(user), headers={"X-Coulisse-User": other})
    assert "another user" in page(answer, 403)


def test_unknown_server_is_404(server, browser):
    result = page(browser.get("/mcp/%3Cb%3Ex/connect?token=x"), 404)
    assert "<b>x" not in result
    assert "&lt;b&gt;x" in result


def test_server_without_sign_in_is_404(server, browser):
    assert "No sign-in needed" in page(browser.get("/mcp/open/connect?token=x"), 404)


def test_callback_in_another_browser_is_refused(
    server, browser, protected, user, running
):
    back = protected.consent(leave(browser, user))
    with httpx2.Client(verify=False) as stranger:
        assert "another browser" in page(stranger.get(back), 403)
    assert not is_connected(user)
    page(browser.get(back), 200)


def test_repeated_callback_is_refused(server, browser, protected, user):
    back = protected.consent(leave(browser, user))
    page(browser.get(back), 200)
    assert "already used" in page(browser.get(back), 400)


@pytest.mark.parametrize("query", ["", "?code=x", "?code=x&state=abc", "?error=x"])
def test_invalid_state_is_refused(server, browser, query):
    assert "not valid" in page(browser.get(f"/mcp/notes/oauth/callback{query}"), 400)


def back_with(browser, user: str, **received: str) -> httpx2.Response:
    state = parse_qs(urlsplit(leave(browser, user)).query)["state"][0]
    return browser.get("/mcp/notes/oauth/callback", params={"state": state, **received})


def test_declined_consent_is_reported(server, browser, user):
    result = page(back_with(browser, user, error="access_denied"), 403)
    assert "You declined access" in result
    assert result.count("connected") == 1
    assert "To connect, go back to the chat" in result


def test_provider_error_text_is_escaped(server, browser, user):
    words = "<script>alert(1)</script>"
    answer = back_with(browser, user, error="x", error_description=words)
    assert "&lt;script&gt;alert(1)" in page(answer, 502)


def test_invalid_authorization_code_is_reported(server, browser, user):
    result = page(back_with(browser, user, code="nonsense"), 502)
    assert "The provider refused" in result
    assert "authorization code does not exist" in result


def test_unreachable_provider_is_502(server, browser, configure_notes, user):
    configure_notes("http://127.0.0.1:9/mcp")
    address = link(user)
    result = page(browser.get(address), 502)
    assert "cannot be reached" in result
    assert "open the link again" in result
    assert "127.0.0.1" not in result
    page(browser.get(address), 502)  # It is not used up.


def test_slow_provider_is_504(configure_notes, browser, scripted, user, monkeypatch):
    configure_notes(scripted.url)
    scripted.hang(ISSUER)
    monkeypatch.setattr(
        "gateway.mcp_oauth.sign_in_views.SIGN_IN_FLOW._clients._http._seconds", 0.05
    )
    assert "did not respond in time" in page(browser.get(link(user)), 504)


def test_token_timeout_asks_for_a_new_link(
    configure_notes, browser, scripted, user, monkeypatch
):
    configure_notes(scripted.url)
    state = parse_qs(urlsplit(leave(browser, user)).query)["state"][0]
    scripted.hang("/token")
    monkeypatch.setattr(
        "gateway.mcp_oauth.sign_in_views.SIGN_IN_FLOW._http._seconds", 0.05
    )
    received = {"state": state, "code": "x"}
    result = page(browser.get("/mcp/notes/oauth/callback", params=received), 504)
    assert "open the link again" not in result
    assert "ask for a new link" in result


def test_malformed_token_response_is_502(configure_notes, browser, scripted, user):
    configure_notes(scripted.url)
    scripted.answer("/token", b"not JSON")
    result = page(back_with(browser, user, code="x"), 502)
    assert "sent an invalid response" in result


def test_broken_vault_key_is_503(server, browser, user, monkeypatch):
    address = link(user)
    monkeypatch.setenv("COULISSE_VAULT_KEY", "broken")
    result = page(browser.get(address), 503)
    assert "cannot store secrets" in result
    assert "broken" not in result


def test_secrets_are_not_logged(server, browser, protected, user, caplog):
    caplog.set_level("DEBUG")
    address = link(user)
    back = protected.consent(browser.get(address).headers["location"])
    page(browser.get(back), 200)
    page(browser.get(back), 400)
    secrets = [
        f"{each.name}: {each.getMessage()}"
        for each in caplog.records
        # The secrets of the browser and of the provider.
        if not each.name.startswith(("httpx", "httpcore"))
        and "/authorize" not in each.getMessage()
    ]
    result = "\n".join(secrets)
    for url in (address, back):
        for (value,) in parse_qs(urlsplit(url).query).values():
            assert value not in result
    assert identity.derive_user_id(user).hex not in result


@pytest.mark.parametrize("path", ["connect", "oauth/callback"])
def test_another_method_is_refused(server, browser, path):
    answer = browser.post(f"/mcp/notes/{path}")
    assert error(answer, 405)["code"] == "method_not_allowed"
