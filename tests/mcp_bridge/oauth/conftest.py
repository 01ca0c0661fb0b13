"""Fixtures for sign-ins: real and scripted OAuth servers."""

from collections.abc import Iterator

import pytest

from mcp_bridge.models import McpClient
from tests.mcp_bridge.oauth.scripted_oauth_server import ScriptedOAuthServer
from tests.mcp_bridge.oauth.sign_in_process import SignInProcess, configured
from tests.mcp_bridge.oauth_server import ProtectedServer, serve_protected


@pytest.fixture(scope="module")
def protected() -> Iterator[ProtectedServer]:
    """A real MCP server behind a real authorization server."""
    with serve_protected() as place:
        yield place


@pytest.fixture
def scripted() -> Iterator[ScriptedOAuthServer]:
    """A scripted OAuth server."""
    with ScriptedOAuthServer() as place:
        yield place


@pytest.fixture
def process(database: None, scripted: ScriptedOAuthServer) -> SignInProcess:
    """A process that signs in to the scripted server."""
    return SignInProcess(configured(notes={"url": scripted.url}))


@pytest.fixture(autouse=True)
def _no_registrations(database: None) -> None:
    """Ports are reused, and so would be the registrations of other tests."""
    McpClient.objects.all().delete()
