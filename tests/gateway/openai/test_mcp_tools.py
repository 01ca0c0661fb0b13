"""Agents with tools of real MCP servers."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ImageContent

from access.users import identity
from mcp_bridge import toolset
from telemetry.models import Turn
from telemetry.storage import turn_store
from tests.conftest import serve_on
from tests.gateway import calls
from tests.gateway.calls import ask, body, frames, text_of, until
from tests.mcp_bridge.oauth_server import serve_protected

pytestmark = pytest.mark.database

CONFIG = """
providers:
  openai: {{api_key: sk-openai-secret, base_url: "{{fake}}/v1", retries: 0}}
mcp:
  tools: {{url: "{tools}", oauth: false}}
  private: {{url: "{private}"}}
  gone: {{url: "http://127.0.0.1:9/mcp", oauth: false}}
public_base_url: {server}
agents:
  - name: helper
    provider: openai
    model: gpt-test
    mcp_tools: [{{server: tools}}]
  - name: careful
    provider: openai
    model: gpt-test
    mcp_tools: [{{server: tools, only: [add]}}]
  - name: secretary
    provider: openai
    model: gpt-test
    mcp_tools: [{{server: private}}]
  - name: boss
    provider: openai
    model: gpt-test
    subagents: [secretary]
  - name: unlucky
    provider: openai
    model: gpt-test
    mcp_tools: [{{server: gone}}, {{server: tools}}]
"""

LINK = re.compile(r"https?://[^\s'\"]+/mcp/private/connect\?[^\s'\"]+")
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)


class Workshop:
    """An MCP server with tools that can wait."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.mcp = MCPServer("workshop")

        @self.mcp.tool()
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        @self.mcp.tool()
        def fail() -> str:
            """Fail."""
            raise ToolError("the saw is broken")

        @self.mcp.tool()
        def draw() -> ImageContent:
            """Return an image."""
            return ImageContent(type="image", data=PIXEL, mime_type="image/png")

        @self.mcp.tool()
        async def wait(who: str) -> str:
            """Wait forever."""
            self.begun.append(who)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled.append(who)
                raise
            return "at last"


@contextmanager
def serving(application) -> Iterator[str]:
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        application, log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=lambda: asyncio.run(serve_on(listener, server)), daemon=True
    )
    thread.start()
    until(lambda: server.started)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    server.should_exit = True
    thread.join(60)
    listener.close()


@pytest.fixture(autouse=True)
def _no_turn_is_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the timeouts: test machines may be slow."""
    monkeypatch.setattr(toolset, "TIMEOUT_SECONDS", 60.0)


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    workshop = Workshop()
    with serving(workshop.mcp.streamable_http_app(host="127.0.0.1")) as url:
        workshop.url = url
        yield workshop


@pytest.fixture(scope="module")
def private():
    with serve_protected() as place:
        yield place


@pytest.fixture
def server(running, configure, workshop, private):
    configure(CONFIG.format(tools=workshop.url, private=private.url, server=running))
    return running


def tool_names(fake, number: int = -1) -> list[str]:
    """Return the tools in the model's request."""
    return [tool["function"]["name"] for tool in fake.bodies[number]["tools"]]


def last_message(fake, number: int = -1) -> str:
    """Return the last message in the model's request."""
    return str(fake.bodies[number]["messages"][-1])


def load_record(user: str):
    turns = Turn.objects.filter(user_id=identity.derive_user_id(user))
    until(lambda: turns.count() == 1)
    return turn_store.load_record(turns.get().pk)


@pytest.mark.parametrize("stream", [True, False])
def test_agent_uses_mcp_tools(server, client, fake, user, stream):
    fake.call_tool("add", {"a": 2, "b": 3})
    fake.reply("Five.")
    message = frames(server, body(user, "2 + 3?", agent="helper"))
    assert text_of(message) == "Five."
    assert set(tool_names(fake, 0)) == {"add", "draw", "fail", "wait"}
    assert "5" in last_message(fake)
    _, call, _ = load_record(user).calls
    assert (call.name, call.kind, call.target, call.result) == (
        "add",
        "mcp",
        "tools",
        "5",
    )


def test_agent_sees_only_allowed_tools(server, client, fake, user):
    fake.call_tool("fail", {})
    fake.reply("I may not.")
    ask(client, user, agent="careful")
    assert tool_names(fake) == ["add"]
    assert "there is no tool called 'fail'; available tools: add" in last_message(fake)


def test_failed_tool_is_answered_to_the_model(server, client, fake, user):
    fake.call_tool("fail", {})
    fake.reply("It is broken.")
    assert ask(client, user, agent="helper").choices[0].message.content
    assert "the saw is broken" in last_message(fake)
    assert "the saw is broken" in load_record(user).calls[1].error


def test_wrong_argument_types_are_answered_to_the_model(server, client, fake, user):
    fake.call_tool("add", {"a": "two", "b": []})
    fake.reply("I see.")
    ask(client, user, agent="helper")
    assert "Error" in last_message(fake)
    assert "valid integer" in last_message(fake)


def test_tool_image_reaches_the_model(server, client, fake, user):
    fake.call_tool("draw", {})
    fake.reply("A dot.")
    ask(client, user, agent="helper")
    assert PIXEL in last_message(fake)


def test_tool_image_survives_a_client_tool_call(server, client, fake, user):
    fake.reply(tool_calls=[("draw", {}), ("look", {})])
    fake.reply("A dot.")
    tools = [{"type": "function", "function": {"name": "look"}}]
    first = ask(client, user, agent="helper", tools=tools)
    (call,) = first.choices[0].message.tool_calls
    answer = {"role": "tool", "tool_call_id": call.id, "content": "seen"}
    ask(client, user, agent="helper", tools=tools, messages=[answer])
    text = fake.bodies[1]["messages"]
    assert [message["role"] for message in text[-4:]] == [
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert PIXEL in last_message(fake)


def test_unreachable_server_disables_only_its_own_tools(server, client, fake, user):
    fake.call_tool("gone_unreachable", {})
    fake.reply("It is gone.")
    reply = ask(client, user, agent="unlucky")
    assert reply.choices[0].message.content == "It is gone."
    assert {"gone_unreachable", "add"} <= set(tool_names(fake))
    assert "not available now" in last_message(fake)


def test_client_disconnect_cancels_the_tool_call(server, fake, user, workshop):
    fake.reply("Wait.", tool_calls=[("wait", {"who": user})])
    request = body(user, "hi", agent="helper", stream=True)
    with calls.open_connection(server, request) as caller:
        caller.read_until("Wait.")
        until(lambda: user in workshop.begun)
    until(lambda: user in workshop.cancelled)
    call = load_record(user).calls[1]
    assert (call.result, call.error, call.seconds) == (None, None, None)


def connect(server: str, private, link: str, subject: str) -> httpx2.Response:
    """Open a link and sign in."""
    with httpx2.Client(timeout=60, verify=False) as browser:
        departure = browser.get(link)
        assert departure.status_code == 302, departure.text
        private.provider.subject = subject
        return browser.get(private.consent(departure.headers["location"]))


def test_two_users_sign_in_separately(server, client, fake, user, private):
    users = {f"{user}-{who}": who for who in ("ada", "bob")}
    for name, who in users.items():
        fake.call_tool("connect_private", {})
        fake.reply("Please open the link.")
        ask(client, name, "Who am I?", agent="secretary")
        assert tool_names(fake) == ["connect_private"]
        (link,) = LINK.findall(last_message(fake))
        page = connect(server, private, link, who)
        assert page.status_code == 200
        assert "text/html" in page.headers["content-type"]
    for name, who in users.items():
        fake.call_tool("whoami", {})
        fake.reply("I know.")
        ask(client, name, "And now?", agent="secretary")
        assert tool_names(fake) == ["whoami"]
        assert who in last_message(fake)


def test_subagent_uses_the_users_sign_in(server, client, fake, user, private):
    fake.call_tool("secretary", {"message": "Connect."})
    fake.call_tool("connect_private", {})
    fake.reply("A link.")
    fake.reply("Open it.")
    ask(client, user, agent="boss")
    (link,) = LINK.findall(last_message(fake, 2))
    connect(server, private, link, "eve")
    fake.call_tool("secretary", {"message": "Who?"})
    fake.call_tool("whoami", {})
    fake.reply("Eve.")
    fake.reply("Eve, says the secretary.")
    ask(client, user, agent="boss")
    assert "eve" in last_message(fake, 6)
