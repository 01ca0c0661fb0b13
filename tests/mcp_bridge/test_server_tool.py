"""Tool calls, and their repetition if the server did not start them."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import mcp_types
import pytest

from mcp_bridge.client.session_pool import SessionPool
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.errors import ServerGone, ServerUnreachable, SignInNeeded
from mcp_bridge.toolset import ServerTool, assign_names
from tests.mcp_bridge.conftest import (
    HERE,
    USER,
    NoCredentials,
    call_tool,
    configured,
    open_named_tools,
    raw,
)
from tests.mcp_bridge.test_toolset import signed_child

LINK = "https://me.example/connect"
NOT_STARTED = ServerGone("the server went away", server="it", is_safe_to_retry=True)
STARTED = ServerGone("the server went away", server="it")
REFUSED = SignInNeeded("wants the user to sign in", server="it")
DONE = mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text="ok")])


def tool(*answers) -> tuple[ServerTool, list[str]]:
    """Return a tool with scripted answers, and its calls."""
    called: list[str] = []
    remaining = list(answers)

    async def call(name, arguments):
        called.append(name)
        answer = remaining.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def session(server_target):
        yield SimpleNamespace(call=call)

    return ServerTool(
        name="it_pay",
        target="it",
        description="",
        parameters={},
        server_name="pay",
        server_target=ServerTarget("it", raw(), HERE),
        pool=SimpleNamespace(session=session),
        link=lambda: LINK,
    ), called


async def test_delivered_call_is_not_repeated():
    pay, called = tool(STARTED, DONE)
    with pytest.raises(ServerGone):
        await call_tool(pay)
    assert called == ["pay"]


async def test_undelivered_call_is_repeated_once():
    pay, called = tool(NOT_STARTED, DONE)
    assert await call_tool(pay) == "ok"
    assert called == ["pay"] * 2
    pay, called = tool(NOT_STARTED, NOT_STARTED, DONE)
    with pytest.raises(ServerGone):
        await call_tool(pay)
    assert called == ["pay"] * 2


@pytest.mark.parametrize("before", [[], [NOT_STARTED]])
async def test_refused_token_returns_the_sign_in_link(before):
    pay, _ = tool(*before, REFUSED)
    answer = await call_tool(pay)
    assert answer.startswith("Not connected:")
    assert answer.endswith(LINK)


class StaticTokens(NoCredentials):
    async def tokens(self, config, servers, user_id):
        return dict.fromkeys(servers, "token")


async def test_server_refusing_at_once_can_be_connected(monkeypatch):
    pool, tries = SessionPool(), []

    async def opening(self):
        tries.append(True)
        raise REFUSED

    monkeypatch.setattr(
        "mcp_bridge.client.server_session.McpSession.wait_open", opening
    )
    config = configured(it=signed_child())
    for _ in range(2):
        tools = await open_named_tools(config, pool, user_id=USER, by=StaticTokens())
        assert list(tools) == ["connect_it"]
    assert len(tries) == 2  # Who connects meanwhile must not have to wait.
    await pool.close()


async def test_recovered_server_has_the_full_timeout_again(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("mcp_bridge.client.session_pool.monotonic", lambda: now[0])
    pool, server_target = SessionPool(), ServerTarget("it", raw(), HERE)
    begin, fails = SessionPool._open, [raw("exit"), raw()]
    monkeypatch.setattr(
        SessionPool,
        "_open",
        lambda self, _: begin(self, ServerTarget("it", fails.pop(0), HERE)),
    )
    with pytest.raises(ServerUnreachable):
        async with pool.session(server_target):
            raise AssertionError
    now[0] += 6
    async with pool.session(server_target) as session:
        assert session.is_open
    assert not pool._loop_sessions().failures
    await pool.close()


def test_hash_suffix_keeps_names_within_the_limit():
    long = "c" * 60
    clash = [("a", f"b_{long}"), ("a_b", long), ("x", long), ("y", f"b_{long}")]
    assert {len(name) for name in assign_names(clash)[:2]} == {64}
    assert len({*assign_names(clash)}) == 4
