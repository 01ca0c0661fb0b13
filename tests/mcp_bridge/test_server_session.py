"""One session: its tokens, failed calls, tool lists and end."""

import asyncio
import logging

import httpx2
import mcp_types
import pytest

from core.runtime import request_ids
from mcp_bridge.client import http_client, server_session, stdio
from mcp_bridge.client.server_session import McpSession
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.errors import CallRefused, ServerGone
from tests.conftest import serve
from tests.mcp_bridge.conftest import HERE, TEST_SECONDS, raw
from tests.mcp_bridge.http_servers import FaultyServer
from tests.mcp_bridge.test_http_client import config_for

pytestmark = pytest.mark.usefixtures("no_leaks")


def begin(server, **fields) -> McpSession:
    warn = fields.pop("warn", print)
    address = ServerTarget("it", server, HERE, **fields)
    return McpSession(address, connect_seconds=TEST_SECONDS, warn=warn)


@pytest.fixture
async def session():
    session = begin(raw())
    await session.wait_open()
    yield session
    await session.close()


# Tokens.


class Refusing:
    """A server that accepts some tokens, and their renewal."""

    def __init__(self, *accepted: str, renewed: str | None) -> None:
        self.accepted = {f"Bearer {token}" for token in accepted}
        self.renewed = renewed
        self.asked: list[str] = []

    async def renew(self, refused: str) -> str | None:
        self.asked.append(refused)
        return self.renewed

    async def calls(self, bearer: http_client.BearerAuth, *, status: int) -> None:
        def answer(request: httpx2.Request) -> httpx2.Response:
            is_good = request.headers["Authorization"] in self.accepted
            return httpx2.Response(200 if is_good else 401)

        transport = httpx2.MockTransport(answer)
        async with httpx2.AsyncClient(transport=transport, auth=bearer) as client:
            assert (await client.get("http://it.example/")).status_code == status


@pytest.mark.parametrize("renewed", [None, "old", "refused-too"])
async def test_finally_refused_token_is_not_retried(renewed):
    server = Refusing("good", renewed=renewed)
    bearer = http_client.BearerAuth("old", server.renew)
    await server.calls(bearer, status=401)
    assert bearer.is_refused
    asked = list(server.asked)
    await server.calls(bearer, status=401)
    assert server.asked == asked  # A missing token is not requested again.
    bearer.replace_token("good", server.renew)
    assert not bearer.is_refused
    await server.calls(bearer, status=200)


async def test_token_is_renewed_once_and_kept():
    server = Refusing("new", renewed="new")
    bearer = http_client.BearerAuth("old", server.renew)
    await server.calls(bearer, status=200)
    bearer.replace_token("old", server.renew)
    await server.calls(bearer, status=200)
    assert server.asked == ["old"]
    assert not bearer.is_refused


# Repeatable and unrepeatable calls.


class Counting(FaultyServer):
    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []

    async def call(self, tool, receive, send, reply):
        self.called.append(tool)
        await super().call(tool, receive, send, reply)


async def test_delivered_call_is_not_repeated():
    app = Counting()
    with serve(app) as root:
        session = begin(config_for(f"{root}/mcp"))
        await session.wait_open()
        with pytest.raises(ServerGone) as caught:
            await session.call("drop", {})
        assert not caught.value.is_safe_to_retry
        assert app.called == ["drop"]
        await session.close()


async def test_undelivered_call_may_be_repeated():
    with serve(FaultyServer(), grace_seconds=0) as root:
        session = begin(config_for(f"{root}/mcp"))
        await session.wait_open()
    with pytest.raises(ServerGone, match="cannot be reached") as caught:
        await session.call("ok", {})
    assert caught.value.is_safe_to_retry
    await session.close()


async def test_call_after_the_end_was_not_delivered(session):
    session.abort("had enough")
    with pytest.raises(ServerGone, match="'it' had enough") as caught:
        await session.call("echo", {})
    assert caught.value.is_safe_to_retry
    assert not session.is_open


async def answered(monkeypatch, session, *answers):
    """Script the answers of the server."""
    remaining = list(answers)

    async def send_request(request, kind):
        answer = remaining.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(session._client, "send_request", send_request)
    return await session.call("echo", {})


async def test_changed_tool_is_listed_again_and_called(monkeypatch, session):
    listed = []

    async def read(*_):
        listed.append(True)
        return ()

    monkeypatch.setattr(server_session.catalog, "list_tools", read)
    mismatch = server_session.MCPError(mcp_types.HEADER_MISMATCH, "it changed")
    done = mcp_types.CallToolResult(content=[])
    assert await answered(monkeypatch, session, mismatch, done) is done
    assert listed == [True]


async def test_input_request_instead_of_a_result_is_refused(monkeypatch, session):
    question = mcp_types.InputRequiredResult(request_state="x")
    with pytest.raises(CallRefused, match="requested user input during the call"):
        await answered(monkeypatch, session, question)


async def test_long_refusal_is_truncated(monkeypatch, session):
    refusal = server_session.MCPError(mcp_types.INVALID_PARAMS, "x" * 5000)
    with pytest.raises(CallRefused) as caught:
        await answered(monkeypatch, session, refusal)
    assert caught.value.message.endswith(f"refused the call: {'x' * 1999}…")


# Lists.


async def test_outdated_tool_list_is_refreshed_in_background(session):
    before = session._listed_at
    session._listed_at -= server_session.LIST_MAX_AGE_SECONDS + 1
    assert await session.tools() is session.catalog_tools
    assert session._refresh_task is not None
    await session._refresh_task
    assert session._listed_at >= before


async def test_slow_tool_list_is_not_waited_for(monkeypatch, session):
    async def read(*_):
        await asyncio.Event().wait()

    monkeypatch.setattr(server_session.catalog, "list_tools", read)
    monkeypatch.setattr(server_session, "LIST_WAIT_SECONDS", 0.01)
    session._is_list_stale = True
    async with asyncio.timeout(TEST_SECONDS):
        assert await session.tools() == session.catalog_tools


async def test_failed_tool_list_keeps_the_old_one_and_warns():
    warnings: list[str] = []
    session = begin(raw(), warn=warnings.append)
    await session.wait_open()
    catalog_tools = session.catalog_tools
    session._client.list_tools = None
    session._is_list_stale = True
    assert await session.tools() is catalog_tools
    assert warnings == ["its tools could not be refreshed: TypeError"]
    assert session.is_open
    await session.close()


# Closing.


class RequestIdHandler(logging.Handler):
    """Records the request id of each line."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.noted.append(request_ids.current.get())


@pytest.fixture
def logged_ids(caplog):
    caplog.set_level(logging.DEBUG, "mcp_bridge")
    logged_ids = RequestIdHandler()
    logging.getLogger("mcp_bridge").addHandler(logged_ids)
    yield logged_ids.noted
    logging.getLogger("mcp_bridge").removeHandler(logged_ids)


async def test_session_logs_have_no_request_id(logged_ids):
    request_ids.assign_request_id(b"checkout-7")
    session = begin(raw(), warn=print)
    await session.wait_open()
    with pytest.raises(ServerGone):
        await session.call("die", {})
    await session.close()
    request_ids.current.set("")
    assert logged_ids
    assert set(logged_ids) == {""}


async def test_crash_is_noticed_while_a_grandchild_holds_pipes(monkeypatch, session):
    monkeypatch.setattr(stdio, "GRACE_SECONDS", 0.1)
    await session.call("spawn", {})
    async with asyncio.timeout(TEST_SECONDS):
        with pytest.raises(ServerGone, match="'it' ended with exit code 3"):
            await session.call("die", {})


async def test_session_outlives_the_opening_timeout(session, skip_time):
    await skip_time(asyncio.sleep(2 * TEST_SECONDS))
    assert session.is_open
