import asyncio
import logging
import uuid

import jsonschema_rs
import pytest

from core.ids import UserId
from core.tools import to_openai_tool
from mcp_bridge import toolset
from mcp_bridge.oauth.errors import SignInFailed
from mcp_bridge.toolset import ServerGrant, assign_names, discover_tools, open_tools
from tests.mcp_bridge.conftest import (
    NO_CREDENTIALS,
    TEST_SECONDS,
    USER,
    NoCredentials,
    call_tool,
    configured,
    open_named_tools,
    raw,
    wait_until,
)

pytestmark = pytest.mark.usefixtures("no_leaks")

SIGNED = {"url": "http://127.0.0.1:9/mcp"}


async def granted(config, pool, *grants, by=NO_CREDENTIALS):
    return await open_tools(config, grants, USER, pool=pool, credentials=by)


async def tool_names(config, pool, *grants):
    return [tool.name for tool in await granted(config, pool, *grants)]


# The tools.


async def test_only_granted_tools_are_offered_in_stable_order(pool):
    config = configured(it=raw())
    grant = ServerGrant("it", ("pid", "echo"))
    assert await tool_names(config, pool, grant) == ["echo", "pid"]


async def test_missing_granted_tool_is_warned_about_once(pool, caplog):
    config = configured(it=raw())
    for _ in range(2):
        assert await tool_names(config, pool, ServerGrant("it", ("echo", "ehco"))) == [
            "echo"
        ]
    assert (
        caplog.text.count("has no tool 'ehco', which an agent lists under only:") == 1
    )


async def test_no_grant_opens_no_session(pool):
    assert await tool_names(configured(it=raw()), pool) == []
    assert len(pool) == 0


async def test_empty_grant_offers_nothing(pool):
    assert await tool_names(configured(it=raw()), pool, ServerGrant("it", ())) == []


async def test_tools_of_every_page_are_offered(pool):
    config = configured(it=raw("pages"), whole=raw())
    found = [
        await tool_names(config, pool, ServerGrant(n, None)) for n in ("it", "whole")
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 18


async def test_endless_tool_list_is_truncated(pool, caplog):
    assert len(await open_named_tools(configured(it=raw("endless")), pool)) == 100
    assert "more than 100 pages of tools; the rest are ignored" in caplog.text


async def test_very_long_tool_list_is_truncated_with_one_log_line(pool, caplog):
    config = configured(it=raw("many"))
    assert len(await open_named_tools(config, pool)) == 1000
    [line] = [record.getMessage() for record in caplog.records]
    assert "more than 1000 tools; the rest are ignored" in line


async def test_faulty_server_does_not_flood_the_log(pool, caplog):
    config = configured(it=raw("bad"))
    assert await open_named_tools(config, pool) == {}
    *lines, last = [record.getMessage() for record in caplog.records]
    assert len(lines) == 20
    assert "further warnings about this server are not logged" in last


async def test_tool_name_cannot_forge_log_lines(pool, caplog):
    caplog.set_level("INFO")
    await discover_tools(configured(it=raw("control")), pool=pool)
    lines = [record.getMessage() for record in caplog.records]
    assert any("offers 1 tool: a?WARNING b?[2J" in line for line in lines)
    assert any("'c?WARNING d' is ignored" in line for line in lines)
    assert all(line.isprintable() for line in lines)


async def test_names_are_valid_for_providers_and_mapped_back(pool):
    tools = await open_named_tools(configured(it=raw("names")), pool)
    assert sorted(len(name) for name in tools)[-2:] == [64, 64]
    assert {"fine", "gr__e", "it_a_b_"} <= {name[:7] for name in tools}
    assert all(set(name) <= ALLOWED for name in tools)
    assert len(tools) == 6
    answers = {name: await call_tool(tool) for name, tool in tools.items()}
    assert sorted(answers.values()) == sorted(
        f"no {name}"
        for name in ["a.b", "a_b", "n" * 200, "n" * 199 + "m", "größe", "fine"]
    )


ALLOWED = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


async def test_equal_names_of_two_servers_are_distinguished(pool):
    config = configured(one=raw(env={"WHO": "1"}), other=raw(), third=raw("pages"))
    grants = [ServerGrant("one", ("pid", "echo")), ServerGrant("other", ("pid",))]
    tools = {tool.name: tool for tool in await granted(config, pool, *grants)}
    assert list(tools) == ["echo", "one_pid", "other_pid"]
    pids = [await call_tool(tools[name]) for name in ("one_pid", "other_pid")]
    assert pids[0] != pids[1]


def test_clashing_prefixed_name_gets_a_hash():
    tools = [("a", "b_c"), ("a_b", "c"), ("x", "c"), ("y", "b_c")]
    given = assign_names(tools)
    assert len(set(given)) == 4
    assert given[2:] == ["x_c", "y_b_c"]
    assert assign_names(list(reversed(tools))) == list(reversed(given))


async def test_tool_with_invalid_schema_is_left_out_with_warning(pool, caplog):
    config = configured(it=raw("schemas"))
    assert list(await open_named_tools(config, pool)) == ["good"]
    for fault in (
        "'list' is ignored: its arguments are not an object",
        "'not_a_map' is ignored: its description or schema is malformed",
        "'not_json_schema' is ignored: its schema is not valid JSON Schema",
        "'deep' is ignored: its schema is nested more than 64 levels deep",
        "'large' is ignored: its schema has 100,035 bytes, more than 100,000",
        "'good' is ignored: another tool has the same name",
        "'without a name' is ignored",
        "'without' is ignored",
    ):
        assert caplog.text.count(fault) == 1, fault
    caplog.clear()
    await open_named_tools(config, pool)
    assert caplog.text == ""


async def test_every_definition_is_valid_for_providers(pool):
    config = configured(it=raw(), bad=raw("exit"), far=SIGNED_SERVER)
    for tool in (await open_named_tools(config, pool)).values():
        function = to_openai_tool(tool)["function"]
        assert function["parameters"]["type"] == "object"
        assert jsonschema_rs.meta.is_valid(function["parameters"])


SIGNED_SERVER = raw().model_copy(update={"command": None, **SIGNED, "args": ()})


# Tools of unavailable servers.


async def test_broken_server_gets_a_placeholder_tool(pool):
    config = configured(bad=raw("exit"), it=raw())
    tools = await open_named_tools(config, pool)
    assert "bad_unreachable" in tools
    assert tools["bad_unreachable"].target == "bad"
    assert await call_tool(tools["echo"], text="fine") == "fine"


async def test_unconnected_server_offers_the_connect_tool(pool):
    tools = await open_named_tools(configured(todoist=SIGNED_SERVER), pool)
    assert list(tools) == ["connect_todoist"]
    answer = await call_tool(tools["connect_todoist"])
    assert answer.startswith(
        "Not connected: the user has not authorized access to the 'todoist' MCP server."
    )
    assert answer.endswith(f"https://me.example/mcp/todoist/connect?token={USER}")
    assert len(pool) == 0


async def test_each_granted_name_has_a_placeholder(pool):
    config = configured(todoist=SIGNED_SERVER)
    tools = await granted(config, pool, ServerGrant("todoist", ("add", "list")))
    assert [tool.name for tool in tools] == ["add", "list"]
    assert {(await call_tool(tool))[:14] for tool in tools} == {"Not connected:"}
    assert all("not connected" in tool.description for tool in tools)


async def test_failed_renewal_does_not_ask_to_connect(pool):
    by = CountingTokens()
    by.tokens_by_user = {USER: SignInFailed("todoist", "could not be renewed")}
    config = configured(todoist=SIGNED_SERVER)
    (tool,) = (await open_named_tools(config, pool, by=by)).values()
    assert tool.name == "todoist_unreachable"
    answer = await call_tool(tool)
    assert "mcp server 'todoist': the sign-in provider failed" in answer
    assert "https://" not in answer


async def test_grant_of_a_removed_server_is_ignored(pool):
    assert await tool_names(configured(it=raw()), pool, ServerGrant("gone", None)) == []


# Sign-in of a child.


class CountingTokens(NoCredentials):
    def __init__(self) -> None:
        self.trips = 0
        self.tokens_by_user = {}

    async def tokens(self, config, servers, user_id):
        self.trips += 1
        return {
            name: self.tokens_by_user[user_id]
            for name in servers
            if user_id in self.tokens_by_user
        }


def signed_child():
    oauth = {
        "mode": "static",
        "authorization_url": "https://auth.example/authorize",
        "token_url": "https://auth.example/token",
        "client_id": "me",
        "client_secret": "hush-hush",
        "redirect_uri": "https://me.example/mcp/it/oauth/callback",
    }
    return raw(oauth=oauth)


async def test_each_user_has_a_child_with_their_own_token(pool):
    config, by = configured(it=signed_child()), CountingTokens()
    alice, bob = UserId(uuid.uuid4()), UserId(uuid.uuid4())
    by.tokens_by_user = {alice: "alices", bob: "bobs"}
    seen = {}
    for user_id in (alice, bob):
        tools = await open_named_tools(config, pool, user_id=user_id, by=by)
        seen[user_id] = await call_tool(tools["env"]), await call_tool(tools["pid"])
    assert '"MCP_OAUTH_TOKEN": "alices"' in seen[alice][0]
    assert "bobs" not in seen[alice][0]
    assert '"MCP_OAUTH_TOKEN": "bobs"' in seen[bob][0]
    assert seen[alice][1] != seen[bob][1]


async def test_changed_token_replaces_the_child(pool):
    config, by = configured(it=signed_child()), CountingTokens()
    pids = []
    for token in ("first", "first", "second"):
        by.tokens_by_user = {USER: token}
        pids.append(
            await call_tool((await open_named_tools(config, pool, by=by))["pid"])
        )
    assert pids[0] == pids[1] != pids[2]
    assert len(pool) == 1


async def test_tokens_are_read_once_for_servers_with_sign_in(pool):
    by = CountingTokens()
    config = configured(a=raw(), b=signed_child(), c=signed_child())
    await open_named_tools(config, pool, "a", by=by)
    assert by.trips == 0
    await open_named_tools(config, pool, by=by)
    assert by.trips == 1


async def test_servers_are_opened_in_parallel(pool, skip_time):
    config = configured(**{f"mute{n}": raw("mute") for n in range(4)})
    opening = asyncio.create_task(open_named_tools(config, pool))
    assert await wait_until(lambda: len(pool) == 4)
    assert not opening.done()
    assert len(await skip_time(opening)) == 4


async def test_open_session_is_returned_without_waiting(pool):
    config = configured(it=raw(), other=raw())
    await open_named_tools(config, pool, "it")
    turn = open_tools(
        config, [ServerGrant("it", None)], USER, pool=pool, credentials=NO_CREDENTIALS
    )
    with pytest.raises(StopIteration):
        turn.send(None)  # Through without a single pause.


# Changes.


async def test_slow_server_serves_the_next_turn(pool, tmp_path, monkeypatch):
    monkeypatch.setattr(toolset, "TIMEOUT_SECONDS", 0.01)
    config = configured(it=raw("sleepy", env={"GO": str(tmp_path / "go")}))
    (tool,) = await granted(config, pool, ServerGrant("it", None))
    assert tool.name == "it_unreachable"
    assert "is not open yet" in tool.description

    monkeypatch.setattr(toolset, "TIMEOUT_SECONDS", TEST_SECONDS)
    (tmp_path / "go").touch()
    assert await tool_names(config, pool, ServerGrant("it", ("pid",))) == ["pid"]


async def test_background_turn_waits_for_a_slow_server(pool, tmp_path, monkeypatch):
    monkeypatch.setattr(toolset, "TIMEOUT_SECONDS", 0.01)
    config = configured(it=raw("sleepy", env={"GO": str(tmp_path / "go")}))
    grants = [ServerGrant("it", ("pid",))]
    opening = asyncio.create_task(
        open_tools(
            config,
            grants,
            USER,
            pool=pool,
            credentials=NO_CREDENTIALS,
            is_interactive=False,
        )
    )
    # Another request is cancelled meanwhile.
    assert await tool_names(config, pool, *grants) == ["it_unreachable"]
    (tmp_path / "go").touch()
    assert [tool.name for tool in await opening] == ["pid"]


async def test_changed_tools_apply_from_the_next_turn(pool):
    config = configured(it=raw())
    before = await open_named_tools(config, pool)
    await call_tool(before["change"])
    assert "newcomer" not in before
    assert await call_tool(before["echo"], text="still") == "still"
    after = await open_named_tools(config, pool)
    assert await call_tool(after["newcomer"]) == "no newcomer"


# The first connection.


async def test_tools_found_at_the_start_are_logged(pool, caplog):
    config = configured(it=raw(), bad=raw("exit"), far=SIGNED_SERVER)
    with caplog.at_level(logging.INFO, "mcp_bridge"):
        await discover_tools(config, pool=pool)
    assert "mcp server 'it' offers 18 tools: big, bytes, change" in caplog.text
    assert (
        "the MCP server 'bad' ended with exit code 4; agents run without its tools"
        in caplog.text
    )
    assert "far" not in caplog.text
    assert len(pool) == 1


async def test_start_without_servers_logs_nothing(pool, caplog):
    with caplog.at_level(logging.INFO, "mcp_bridge"):
        await discover_tools(configured(), pool=pool)
    assert caplog.text == ""
