"""A user connects an MCP server in a browser, through the whole server."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull

from access.audit import audit_log
from access.users import identity
from config import live
from database.errors import DatabaseDown
from mcp_bridge.models import McpClient, McpToken
from tests.gateway.calls import error
from tests.gateway.memory_client import MemoryClient, ok
from tests.mcp_bridge.oauth.scripted_oauth_server import ISSUER, ScriptedOAuthServer
from tests.mcp_bridge.oauth_server import ProtectedServer, serve_protected
from turns.tools.mcp_sessions import TOKEN_MANAGER

pytestmark = pytest.mark.database

SECRET = "the-backends-secret"
CONFIG = """
providers: {openai: {base_url: "{fake}/v1"}}
agents: [{name: assistant, provider: openai, model: gpt-test}]
auth: {mcp_consumer_secret: SECRET}
public_base_url: BASE
mcp:
  notes: {url: NOTES}
  open: {url: NOTES, oauth: false}
"""


@pytest.fixture(scope="module")
def protected() -> Iterator[ProtectedServer]:
    with serve_protected() as place:
        yield place


@pytest.fixture
def scripted() -> Iterator[ScriptedOAuthServer]:
    with ScriptedOAuthServer() as place:
        yield place


@pytest.fixture
def configure_notes(running, configure):
    """Configure the server with the MCP server `notes` at this address."""

    def configure_notes(url: str, *, secret: str = SECRET) -> None:
        text = CONFIG.replace("NOTES", url).replace("BASE", running)
        configure(text.replace("SECRET", secret))

    McpClient.objects.all().delete()
    return configure_notes


@pytest.fixture
def server(running, configure_notes, protected) -> str:
    configure_notes(protected.url)
    return running


@pytest.fixture
def browser(running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=running, verify=False, timeout=60) as client:
        yield client


def link(user: str, server: str = "notes") -> str:
    return TOKEN_MANAGER.link(live.current(), server, identity.derive_user_id(user))


def page(answer: httpx2.Response, status: int) -> str:
    """Return a page's text, after a check of its security headers."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    (nonce,) = re.findall(r"'nonce-([^']+)'", policy)
    assert f'<style nonce="{nonce}">' in answer.text
    assert "<script" not in answer.text
    return answer.text


def leave(browser: httpx2.Client, user: str) -> str:
    """Open a new link; return the redirect."""
    answer = browser.get(link(user))
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


def connect(browser: httpx2.Client, protected: ProtectedServer, user: str) -> str:
    """Complete a sign-in; return the final page."""
    return page(browser.get(protected.consent(leave(browser, user))), 200)


def is_connected(user: str) -> bool:
    return McpToken.objects.filter(user_id=identity.derive_user_id(user)).exists()


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


# Links by a backend.


def ask_for(browser, user: str | None, *, name: str = "notes", secret: str = SECRET):
    return browser.post(
        f"/mcp/{name}/connect-link",
        params={} if user is None else {"user_id": user},
        headers={"Authorization": f"Bearer {secret}"},
    )


def test_backend_receives_the_authorization_url(server, browser, protected, user):
    url = ok(ask_for(browser, user))["url"]
    assert url.startswith(protected.url.removesuffix("mcp"))
    with httpx2.Client(verify=False) as anybody:
        page(anybody.get(protected.consent(url)), 200)
    assert is_connected(user)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", "Basic the-backends-secret", "é"]
)
def test_backend_link_requires_the_secret(server, browser, user, header):
    headers = {} if header is None else {"Authorization": header.encode()}
    answer = browser.post(
        "/mcp/notes/connect-link", params={"user_id": user}, headers=headers
    )
    assert error(answer, 401)["code"] == "invalid_api_key"
    assert SECRET not in answer.text


@pytest.mark.parametrize("secret", ["", '"  "'])
def test_backend_link_without_configured_secret_is_503(
    configure_notes, browser, user, secret
):
    configure_notes("http://127.0.0.1:9/mcp", secret=secret)
    refusal = error(ask_for(browser, user), 503)
    assert refusal["code"] == "mcp_consumer_secret_unset"


def test_backend_link_for_unknown_server_is_404(server, browser, user):
    refusal = error(ask_for(browser, user, name="gone"), 404)
    assert refusal["code"] == "mcp_server_unknown"


def test_backend_link_requires_a_user(server, browser):
    assert error(ask_for(browser, None), 422)["param"] == "user_id"


def test_backend_link_for_server_without_sign_in_is_refused(server, browser, user):
    assert error(ask_for(browser, user, name="open"), 422)["param"] == "server"


@pytest.mark.parametrize("user_id", ["", "   ", "x" * 600])
def test_backend_link_refuses_invalid_user_name(server, browser, user_id):
    assert error(ask_for(browser, user_id), 400)["message"]


@pytest.mark.parametrize("by", ["header", "query", "twice"])
def test_backend_link_refuses_two_users(server, browser, user, by):
    other = f"{user}-b"
    params = [("user_id", user)]
    params += {
        "query": [("safety_identifier", other)],
        "twice": [("user_id", other)],
    }.get(by, [])
    headers = {"Authorization": f"Bearer {SECRET}"}
    if by == "header":
        headers["X-Coulisse-User"] = other
    answer = browser.post("/mcp/notes/connect-link", params=params, headers=headers)
    assert error(answer, 400)["code"] == "user_conflict"


def test_backend_link_refuses_unknown_parameters(server, browser, user):
    headers = {"Authorization": f"Bearer {SECRET}"}
    answer = browser.post(
        "/mcp/notes/connect-link",
        params={"user_id": user, "user": "x"},
        headers=headers,
    )
    assert error(answer, 400)["code"] == "unknown_parameter"


def test_backend_link_with_provider_down_is_502(configure_notes, browser, user):
    configure_notes("http://127.0.0.1:9/mcp")
    assert error(ask_for(browser, user), 502)["code"] == "sign_in_provider_down"


def test_backend_link_refuses_get(server, browser):
    assert error(browser.get("/mcp/notes/connect-link"), 405)


# The list of connections.


def test_user_lists_and_ends_connections(
    server, browser, protected, memory_client: MemoryClient, other_client: MemoryClient
):
    def states(memory_client: MemoryClient) -> dict[str, bool | None]:
        listed = memory_client.get("/v1/mcp")
        assert listed["object"] == "list"
        return {each["id"]: each["connected"] for each in listed["data"]}

    assert states(memory_client) == {"notes": False, "open": None}
    connect(browser, protected, memory_client.user)
    connect(browser, protected, other_client.user)
    assert states(memory_client) == {"notes": True, "open": None}
    before = len(protected.provider.revoked)
    ended = {"object": "mcp.server.deleted", "id": "notes", "deleted": True}
    assert ok(memory_client.send("DELETE", "/v1/mcp/notes")) == ended
    assert len(protected.provider.revoked) > before
    assert states(memory_client) == {"notes": False, "open": None}
    assert states(other_client) == {"notes": True, "open": None}
    again = ok(memory_client.send("DELETE", "/v1/mcp/notes"))
    assert again == {**ended, "deleted": False}
    user_id = identity.derive_user_id(memory_client.user)
    entries, _ = audit_log.page_entries(actor=str(user_id), action="mcp")
    assert [entry.action for entry in entries] == ["mcp.disconnect", "mcp.connect"]
    assert {entry.target for entry in entries} == {"mcp server notes"}
    assert {entry.origin for entry in entries} == {"127.0.0.1"}


def test_unauditable_connection_change_is_refused(
    server, browser, protected, memory_client: MemoryClient, monkeypatch
):
    def write(event):
        raise DatabaseDown

    with monkeypatch.context() as patch:
        patch.setattr(audit_log, "write", write)
        back = browser.get(protected.consent(leave(browser, memory_client.user)))
        assert back.status_code == 503
    assert not is_connected(memory_client.user)
    connect(browser, protected, memory_client.user)
    monkeypatch.setattr(audit_log, "write", write)
    assert memory_client.send("DELETE", "/v1/mcp/notes").status_code == 503
    assert is_connected(memory_client.user)


def test_disconnecting_unknown_server_is_404(server, memory_client):
    refusal = memory_client.refused("DELETE", "/v1/mcp/gone", 404)
    assert refusal["code"] == "mcp_server_unknown"


def test_connection_list_requires_a_user(server, http):
    assert error(http.get("/v1/mcp"), 400)["code"] == "user_required"
