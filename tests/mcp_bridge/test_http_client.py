import asyncio
import base64
import logging
import uuid

import pytest

from core.errors import Unavailable
from core.ids import UserId
from mcp_bridge.client.session_pool import SessionPool
from mcp_bridge.config import ToolServerConfig
from mcp_bridge.errors import (
    CallRefused,
    ServerGone,
    ServerReplyInvalid,
    ServerSlow,
    ServerUnreachable,
    ToolFailed,
)
from tests.conftest import serve
from tests.mcp_bridge.conftest import (
    USER,
    NoCredentials,
    call_tool,
    configured,
    open_named_tools,
)
from tests.mcp_bridge.http_servers import PNG, FaultyServer, official, without_discovery

# The SDK's own server leaves them behind when it is stopped in the middle.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject")


@pytest.fixture(scope="module")
def urls():
    """The same server over each transport."""
    newer, older = official(), official()
    with (
        serve(newer.streamable_http_app()) as modern,
        serve(without_discovery(older.streamable_http_app())) as legacy,
        serve(official().sse_app()) as sse,
    ):
        yield {
            "modern": f"{modern}/mcp",
            "legacy": f"{legacy}/mcp",
            "sse": f"{sse}/sse",
        }


@pytest.fixture(params=["modern", "legacy", "sse"])
def url(request, urls):
    return urls[request.param]


@pytest.fixture(scope="module")
def faulty_server_url():
    app = FaultyServer()
    with serve(app) as root:
        yield root, app


@pytest.fixture
def faulty_server(faulty_server_url):
    """A server whose path and tools select its faults."""
    _, app = faulty_server_url
    app.sessions = 0
    app.seen.clear()
    app.accepted.clear()
    app.refusal = b"{}"
    return app


@pytest.fixture
def root(faulty_server_url, faulty_server):
    return faulty_server_url[0]


def config_for(url, **fields):
    return ToolServerConfig(**{"url": url, "oauth": False, **fields})


# Successful calls over each transport.


async def test_tool_can_be_called(url, pool, no_leaks):
    tools = await open_named_tools(configured(it=config_for(url)), pool)
    assert tools["add"].description == "Add two whole numbers."
    assert await call_tool(tools["add"], a=2, b=3) == "5"
    await pool.close()


async def test_configured_headers_are_sent(url, pool):
    server = config_for(url, headers={"Authorization": "Bearer of-the-house"})
    tools = await open_named_tools(configured(it=server), pool)
    assert await call_tool(tools["who"]) == "Bearer of-the-house"


async def test_image_result_is_passed_on(url, pool):
    tools = await open_named_tools(configured(it=config_for(url)), pool)
    text, image = await call_tool(tools["picture"])
    assert text == {"type": "text", "text": "a dot"}
    data = base64.b64encode(PNG).decode()
    assert image["image_url"]["url"] == f"data:image/png;base64,{data}"


async def test_wrong_arguments_return_an_error(url, pool):
    tools = await open_named_tools(configured(it=config_for(url)), pool)
    with pytest.raises((ToolFailed, CallRefused), match="valid"):
        await call_tool(tools["add"], a="two")


async def test_elicitation_is_declined(url, pool):
    tools = await open_named_tools(configured(it=config_for(url)), pool)
    with pytest.raises((ToolFailed, CallRefused)):
        await call_tool(tools["ask"])
    assert await call_tool(tools["add"], a=1, b=1) == "2"


async def test_changed_tools_are_available_in_the_next_turn(url, pool):
    config = configured(it=config_for(url))
    before = await open_named_tools(config, pool)
    await call_tool(before["change"])
    after = await open_named_tools(config, pool)
    for _ in range(500):
        if "newcomer" in after:
            break
        await asyncio.sleep(0.01)
        after = await open_named_tools(config, pool)
    assert await call_tool(after["newcomer"]) == "new"
    await call_tool(after["forget"])


async def test_fifty_parallel_calls_succeed(url, pool, no_leaks):
    tools = await open_named_tools(configured(it=config_for(url)), pool)
    answers = await asyncio.gather(
        *(call_tool(tools["add"], a=number, b=0) for number in range(50))
    )
    assert answers == [str(number) for number in range(50)]
    await pool.close()


# Failures of calls.


@pytest.mark.parametrize(
    ("tool", "error", "message"),
    [
        ("drop", ServerGone, "'it' broke the connection"),
        ("empty", CallRefused, "202"),
        ("html", CallRefused, "Unexpected content type: text/html"),
        ("huge", ServerReplyInvalid, "answered with more than 16 MB"),
        ("json", ServerReplyInvalid, "sent a malformed response"),
        (
            "packed",
            ServerGone,
            "'it' sent a compressed response, which is not supported",
        ),
        (
            "redirect",
            CallRefused,
            r"answered with a redirect \(status 302\) \[details: check its url",
        ),
        ("status_500", CallRefused, "answered with status 500"),
        ("status_503", CallRefused, "answered with status 503"),
    ],
)
async def test_bad_response_fails_only_its_call(
    pool, root, faulty_server, tool, error, message
):
    tools = await open_named_tools(configured(it=config_for(f"{root}/mcp")), pool)
    beside = asyncio.create_task(call_tool(tools["hang"]))
    with pytest.raises(error, match=message) as caught:
        await call_tool(tools[tool])
    assert "secret" not in caught.value.message
    assert await call_tool(tools["ok"]) == "ok"
    assert faulty_server.sessions == 1
    assert not beside.done()
    beside.cancel()
    await asyncio.wait([beside])


async def test_call_timeout_fails_only_its_call(pool, root, faulty_server, skip_time):
    tools = await open_named_tools(
        configured(it=config_for(root, timeout_seconds=50)), pool
    )
    with pytest.raises(ServerSlow, match=r"within 50 seconds"):
        await skip_time(call_tool(tools["hang"]))
    assert await call_tool(tools["ok"]) == "ok"
    assert faulty_server.sessions == 1


async def test_lost_session_is_reopened_and_the_call_repeated(
    pool, root, faulty_server
):
    tools = await open_named_tools(configured(it=config_for(root)), pool)
    assert await call_tool(tools["status_404"]) == "after all"
    assert faulty_server.sessions == 2


# Failures to connect.


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("status_401", r"requires users to sign in (status 401)"),
        ("status_403", "answered with status 403"),
        ("status_404", "status 404"),
        ("status_500", "answered with status 500"),
        ("elsewhere", "answered with a redirect (status 307)"),
    ],
)
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_unavailable_server_states_the_reason(
    pool, root, path, message, transport
):
    server = config_for(f"{root}/{path}", transport=transport)
    tools = await open_named_tools(configured(it=server), pool)
    about = tools["it_unreachable"].description
    assert message in about
    assert root not in about


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_refused_connection_is_reported(pool, transport):
    server = config_for("http://127.0.0.1:9/mcp", transport=transport)
    tools = await open_named_tools(configured(it=server), pool)
    assert "'it' cannot be reached" in tools["it_unreachable"].description


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_silent_server_times_out(root, transport):
    pool = SessionPool(connect_seconds=0.2)
    server = config_for(f"{root}/hang", transport=transport)
    tools = await open_named_tools(configured(it=server), pool)
    assert "did not answer within 0.2 sec" in tools["it_unreachable"].description
    await pool.close()


@pytest.mark.parametrize("kind", ["legacy", "modern", "sse"])
async def test_restarted_server_is_reconnected(kind):
    pool = SessionPool()
    make = official().sse_app if kind == "sse" else official().streamable_http_app
    app = without_discovery(make()) if kind == "legacy" else make()
    with serve(app, grace_seconds=0) as root:
        config = configured(
            it=config_for(f"{root}/{'sse' if kind == 'sse' else 'mcp'}")
        )
        tools = await open_named_tools(config, pool)
        assert await call_tool(tools["add"], a=1, b=1) == "2"
    with pytest.raises((ServerGone, ServerUnreachable)):
        await call_tool(tools["add"], a=1, b=1)
    await pool.close()


# Users.


class StaticTokens(NoCredentials):
    """Users' tokens, and the tokens that replace them."""

    def __init__(self, tokens_by_user, renewed=None):
        self.tokens_by_user = tokens_by_user
        self.renewals = renewed or {}
        self.asked = []

    async def tokens(self, config, servers, user_id):
        return {
            name: self.tokens_by_user[user_id]
            for name in servers
            if user_id in self.tokens_by_user
        }

    async def renew(self, config, server, user_id, refused):
        self.asked.append(refused)
        await asyncio.sleep(0)
        return self.renewals.get(refused)


def signed(url, **fields):
    return ToolServerConfig(url=url, **fields)


async def test_each_user_calls_with_their_own_token(url, pool):
    config = configured(it=signed(url))
    alice, bob = UserId(uuid.uuid4()), UserId(uuid.uuid4())
    by = StaticTokens({alice: "alices", bob: "bobs"})
    tools = {
        user_id: await open_named_tools(config, pool, user_id=user_id, by=by)
        for user_id in (alice, bob)
    }
    seen = await asyncio.gather(
        *(call_tool(tools[user_id]["who"]) for user_id in [alice, bob] * 20)
    )
    assert seen == ["Bearer alices", "Bearer bobs"] * 20
    assert len(pool) == 2


async def test_renewed_token_is_used_in_the_same_session(pool, urls):
    config = configured(it=signed(urls["modern"]))
    by = StaticTokens({USER: "first"})
    await open_named_tools(config, pool, by=by)
    by.tokens_by_user[USER] = "second"
    tools = await open_named_tools(config, pool, by=by)
    assert await call_tool(tools["who"]) == "Bearer second"
    assert len(pool) == 1


async def test_refused_token_is_renewed_and_the_call_repeated(
    pool, root, faulty_server
):
    config = configured(it=signed(f"{root}/guarded"))
    by = StaticTokens({USER: "old"}, {"old": "new"})
    faulty_server.accepted = {"Bearer old"}
    tools = await open_named_tools(config, pool, by=by)
    faulty_server.accepted = {"Bearer new"}
    answers = await asyncio.gather(*(call_tool(tools["ok"]) for _ in range(5)))
    assert answers == ["ok"] * 5
    assert set(by.asked) == {"old"}
    assert faulty_server.seen[-1] == "Bearer new"
    by.asked.clear()
    assert (
        await call_tool(tools["ok"]) == "ok"
    )  # In the same turn, which began with "old".
    assert by.asked == []


async def test_finally_refused_token_offers_the_connect_tool(pool, root, faulty_server):
    config = configured(it=signed(f"{root}/guarded"))
    by = StaticTokens({USER: "old"})
    faulty_server.accepted = {"Bearer old"}
    tools = await open_named_tools(config, pool, by=by)
    faulty_server.accepted = set()
    answer = await call_tool(tools["ok"])
    assert answer.startswith("Not connected: the user has not authorized")
    assert answer.endswith(f"/mcp/it/connect?token={USER}")
    assert list(
        await open_named_tools(configured(it=signed(f"{root}/guarded")), pool, by=by)
    ) == ["connect_it"]


async def test_endless_refusal_body_is_not_read(pool, root, faulty_server):
    config = configured(it=signed(f"{root}/guarded"))
    faulty_server.accepted = {"Bearer old"}
    by = StaticTokens({USER: "old"}, {"old": "new"})
    tools = await open_named_tools(config, pool, by=by)
    faulty_server.accepted, faulty_server.refusal = {"Bearer new"}, b"x" * 20_000_000
    with pytest.raises(ServerReplyInvalid, match="answered with more than 16 MB"):
        await call_tool(tools["ok"])
    assert await call_tool(tools["ok"]) == "ok"
    assert faulty_server.sessions == 1


async def test_failed_renewal_is_not_a_refusal(pool, root, faulty_server):
    class FailingTokens(StaticTokens):
        async def renew(self, config, server, user_id, refused):
            raise Unavailable("the database is down")

    config = configured(it=signed(f"{root}/guarded"))
    faulty_server.accepted = {"Bearer old"}
    tools = await open_named_tools(config, pool, by=FailingTokens({USER: "old"}))
    faulty_server.accepted = {"Bearer new"}
    with pytest.raises(ServerGone, match="which could not be renewed"):
        await call_tool(tools["ok"])
    faulty_server.accepted = {"Bearer old"}
    assert await call_tool(tools["ok"]) == "ok"


async def test_token_is_not_sent_to_redirects(pool, root, faulty_server):
    by = StaticTokens({USER: "mine"})
    await open_named_tools(configured(it=signed(f"{root}/elsewhere")), pool, by=by)
    assert set(faulty_server.seen) == {"Bearer mine"}


async def test_logs_and_errors_contain_no_token(pool, root, faulty_server, caplog):
    by = StaticTokens({USER: "tell-nobody"})
    with caplog.at_level(logging.DEBUG):
        tools = await open_named_tools(
            configured(it=signed(f"{root}/guarded")), pool, by=by
        )
    assert "tell-nobody" not in caplog.text
    assert "tell-nobody" not in repr(tools)
