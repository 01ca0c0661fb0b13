"""Users connect their accounts in a browser."""

from urllib.parse import parse_qs, urlsplit

import pytest
from mcp.shared.auth import OAuthClientInformationFull

from access.users import identity
from config import live
from mcp_bridge.models import McpToken
from tests.gateway.mcp.sign_in.browser_pages import (
    CONFIG,
    SECRET,
    ask_for,
    connect,
    is_connected,
    leave,
    link,
    page,
)
from tests.gateway.memory_client import ok

pytestmark = pytest.mark.database

# The sign-in.


def test_user_connects_in_a_browser(server, browser, protected, user):
    result = connect(browser, protected, user)
    assert "Connected" in result
    assert "notes" in result
    assert "close this window" in result
    assert is_connected(user)


STATIC = """{mode: static, authorization_url: ORIGIN/authorize, token_url: ORIGIN/token,
    client_id: mine, client_secret: my-secret, scopes: [user], redirect_uri: BACK}"""


@pytest.fixture
def static(running, configure_notes, configure, protected) -> str:
    """A configuration with a client that was registered manually."""
    back = f"{running}/mcp/notes/oauth/callback"
    protected.provider.clients["mine"] = OAuthClientInformationFull(
        client_id="mine",
        client_secret="my-secret",
        redirect_uris=[back],
        token_endpoint_auth_method="client_secret_post",
        scope="user",
    )
    origin = protected.url.removesuffix("/mcp")
    oauth = STATIC.replace("ORIGIN", origin).replace("BACK", back)
    text = CONFIG.replace("url: NOTES}", f"url: NOTES, oauth: {oauth}}}", 1)
    text = text.replace("NOTES", protected.url).replace("BASE", running)
    configure(text.replace("SECRET", SECRET))
    return running


@pytest.mark.parametrize("by", ["link", "backend"])
def test_user_connects_with_a_configured_oauth_client(
    static, browser, protected, user, by
):
    registered = set(protected.provider.clients)
    protected.provider.subject = user
    if by == "link":
        departure = leave(browser, user)
    else:
        departure = ok(ask_for(browser, user))["url"]
    question = parse_qs(urlsplit(departure).query)
    assert (question["client_id"], question["scope"]) == (["mine"], ["user"])
    assert "my-secret" not in departure
    assert "Connected" in page(browser.get(protected.consent(departure)), 200)
    row = McpToken.objects.get(user_id=identity.derive_user_id(user))
    assert (row.client_id, row.scopes) == (None, "user")
    assert set(protected.provider.clients) == registered
    assert user in {who for _, who in protected.provider.access.values()}


def test_redirect_to_provider_is_not_cached_or_leaked(server, browser, user):
    answer = browser.get(link(user))
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Max-Age=600" in cookie
    assert "Path=/mcp/notes/oauth/callback" in cookie
    assert "Secure" not in cookie  # The test's address is plain http.


def test_https_cookie_is_secure_and_scoped_to_callback(
    running, browser, configure_notes, protected, user
):
    configure_notes(protected.url)
    path = link(user).removeprefix(running)
    text = live.current()
    values = {**text.values, "public_base_url": "https://me.example/base"}
    live.set_current(type(text)(text.path, values))
    cookie = browser.get(path).headers["set-cookie"]
    assert "Secure" in cookie
    assert "Path=/base/mcp/notes/oauth/callback" in cookie


def test_parallel_sign_ins_do_not_interfere(server, browser, protected, user):
    first, second = leave(browser, user), leave(browser, f"{user}-b")
    page(browser.get(protected.consent(second)), 200)
    page(browser.get(protected.consent(first)), 200)
    assert is_connected(user)
    assert is_connected(f"{user}-b")


def test_head_request_does_not_consume_a_link(server, browser, user):
    address = link(user)
    assert browser.head(address).status_code == 200
    assert browser.get(address).status_code == 302
    assert browser.head(address).status_code == 410


def test_connect_link_accepts_an_optional_user_header(server, browser, user):
    headers = {"X-Coulisse-User": user}
    assert browser.get(link(user), headers=headers).status_code == 302
