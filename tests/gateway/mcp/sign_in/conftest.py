"""Fixtures of these tests."""

from collections.abc import Iterator

import httpx2
import pytest

from mcp_bridge.models import McpClient
from tests.gateway.mcp.sign_in.browser_pages import CONFIG, SECRET
from tests.mcp_bridge.oauth.scripted_oauth_server import ScriptedOAuthServer
from tests.mcp_bridge.oauth_server import ProtectedServer, serve_protected


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
