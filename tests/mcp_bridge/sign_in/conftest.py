"""Places where users sign in."""

from collections.abc import Iterator

import pytest

from mcp_bridge.models import McpClient
from tests.mcp_bridge.authorization import Place, serve_protected
from tests.mcp_bridge.sign_in.scripted import ScriptedProvider
from tests.mcp_bridge.sign_in.users import Stage, configured


@pytest.fixture(scope="module")
def protected() -> Iterator[Place]:
    """A real MCP server behind a real authorization server."""
    with serve_protected() as place:
        yield place


@pytest.fixture
def scripted() -> Iterator[ScriptedProvider]:
    """Another, which says what the test has it say."""
    with ScriptedProvider() as place:
        yield place


@pytest.fixture
def stage(database: None, scripted: ScriptedProvider) -> Stage:
    """A process with the scripted server."""
    return Stage(configured(notes={"url": scripted.url}))


@pytest.fixture(autouse=True)
def _known_to_nobody(database: None) -> None:
    """Ports come round again, and so would the registrations of other tests."""
    McpClient.objects.all().delete()
