"""Links, pages and connections of users."""

import re

import httpx2

from access.users import identity
from config import live
from mcp_bridge.models import McpToken
from tests.mcp_bridge.oauth_server import ProtectedServer
from turns.tools.mcp_sessions import TOKEN_MANAGER

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


# Links by a backend.


def ask_for(browser, user: str | None, *, name: str = "notes", secret: str = SECRET):
    return browser.post(
        f"/mcp/{name}/connect-link",
        params={} if user is None else {"user_id": user},
        headers={"Authorization": f"Bearer {secret}"},
    )
