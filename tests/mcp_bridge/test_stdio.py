import asyncio
import json
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from config.loading import secret_values
from mcp_bridge.client import server_session
from mcp_bridge.client.session_pool import SessionPool
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.config import ToolServerConfig
from mcp_bridge.errors import (
    CallRefused,
    ServerFailed,
    ServerGone,
    ServerReplyInvalid,
    ServerSlow,
    ToolFailed,
)
from tests.mcp_bridge.conftest import (
    HERE,
    call_tool,
    children,
    configured,
    has_exited,
    open_named_tools,
    raw,
    wait_until,
)

KEY = "q7Vd2mXw9Lr4TzK8bNf3HcYs"

pytestmark = pytest.mark.usefixtures("no_leaks")


async def test_tool_can_be_called(pool):
    tools = await open_named_tools(configured(it=raw()), pool)
    assert await call_tool(tools["echo"], text="hello") == "hello"
    echo = tools["echo"]
    assert (echo.kind, echo.target, echo.description) == ("mcp", "it", "Does echo.")
    assert echo.parameters["properties"] == {"text": {"type": "string"}}


async def test_child_is_started_once(pool):
    config = configured(it=raw())
    pids = {
        await call_tool((await open_named_tools(config, pool))["pid"]) for _ in range(2)
    }
    assert len(pids) == 1


async def test_child_inherits_named_variables(pool, monkeypatch):
    monkeypatch.setenv("HOUSE_KEY", KEY)
    monkeypatch.setenv("OTHER_KEY", "mine")
    server = raw(env={"COLOUR": "green"}, env_from=["HOUSE_KEY"])
    tools = await open_named_tools(configured(it=server), pool)
    seen = json.loads(await call_tool(tools["env"]))
    assert (seen["COLOUR"], seen["HOUSE_KEY"]) == ("green", KEY)
    assert "OTHER_KEY" not in seen
    monkeypatch.setenv("HOUSE_KEY", "changed")
    changed = raw(env={"COLOUR": "green"}, env_from=["HOUSE_KEY"])
    assert changed.digest != server.digest
    assert [*secret_values.find_secrets({"it": server})] == [KEY]


async def test_child_sees_only_its_own_environment(pool, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    tools = await open_named_tools(configured(it=raw(env={"COLOUR": "green"})), pool)
    seen = json.loads(await call_tool(tools["env"]))
    assert seen["COLOUR"] == "green"
    assert seen["PATH"] == os.environ["PATH"]
    assert "OPENAI_API_KEY" not in seen


async def test_child_runs_in_the_yaml_directory_or_below(pool, tmp_path):
    (tmp_path / "below").mkdir()
    config = configured(tmp_path, here=raw(), there=raw(cwd="below"))
    found = {}
    for name in ("here", "there"):
        found[name] = await call_tool(
            (await open_named_tools(config, pool, name))["cwd"]
        )
    assert found == {"here": str(tmp_path), "there": str(tmp_path / "below")}


async def test_calls_run_in_parallel(pool):
    tools = await open_named_tools(configured(it=raw(timeout_seconds=20)), pool)
    hanging = asyncio.create_task(call_tool(tools["hang"]))
    answers = await asyncio.gather(
        *(call_tool(tools["echo"], text=str(n)) for n in range(50))
    )
    assert answers == [str(n) for n in range(50)]
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging


async def test_cancelled_call_is_cancelled_at_the_server_only(pool):
    tools = await open_named_tools(configured(it=raw(timeout_seconds=20)), pool)
    pid = await call_tool(tools["pid"])
    hanging = asyncio.create_task(call_tool(tools["hang"]))
    await call_tool(tools["echo"])
    hanging.cancel()
    await asyncio.wait([hanging])
    assert "notifications/cancelled" in await call_tool(tools["methods"])
    assert await call_tool(tools["pid"]) == pid


async def test_call_timeout_fails_only_its_call(pool, skip_time):
    tools = await open_named_tools(configured(it=raw(timeout_seconds=50)), pool)
    pid = await call_tool(tools["pid"])
    with pytest.raises(
        ServerSlow, match=r"did not answer within 50 seconds \(timeout_s"
    ):
        await skip_time(call_tool(tools["hang"]))
    assert await call_tool(tools["pid"]) == pid


async def test_stuck_child_is_replaced(pool, monkeypatch, skip_time):
    monkeypatch.setattr(server_session, "PROBE_TIMEOUT_SECONDS", 0.1)
    tools = await open_named_tools(configured(it=raw(timeout_seconds=50)), pool)
    pid = int(await call_tool(tools["pid"]))
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ServerSlow):
        await skip_time(call_tool(tools["pid"]))
    assert await has_exited(pid)
    tools = await open_named_tools(configured(it=raw()), pool)
    assert int(await call_tool(tools["pid"])) != pid


async def test_crash_fails_its_call_and_the_next_starts_a_child(pool):
    tools = await open_named_tools(configured(it=raw()), pool)
    pid = await call_tool(tools["pid"])
    with pytest.raises(ServerGone, match="'it' ended with exit code 3"):
        await call_tool(tools["die"])
    assert await call_tool(tools["pid"]) != pid


async def test_killed_child_is_noticed_before_the_next_call(pool):
    config = configured(it=raw())
    tools = await open_named_tools(config, pool)
    pid = int(await call_tool(tools["pid"]))
    async with pool.session(
        ServerTarget("it", config.values["mcp"]["it"], HERE)
    ) as session:
        os.kill(pid, signal.SIGKILL)
        while not session.has_ended:  # noqa: ASYNC110 (a process tells us nothing)
            await asyncio.sleep(0.01)
    assert int(await call_tool(tools["pid"])) != pid


async def test_ten_megabyte_result_is_truncated(pool):
    tools = await open_named_tools(configured(it=raw()), pool)
    answer = await call_tool(tools["big"])
    assert len(answer) < 101_000
    assert answer.endswith("[truncated]")


async def test_result_above_16_megabytes_ends_the_session(pool):
    tools = await open_named_tools(configured(it=raw()), pool)
    with pytest.raises(ServerGone, match="sent more than 16 MB in one line"):
        await call_tool(tools["huge"])
    assert await call_tool(tools["echo"], text="again") == "again"


async def test_invalid_utf8_is_replaced(pool):
    tools = await open_named_tools(configured(it=raw()), pool)
    assert await call_tool(tools["bytes"]) == "caf� �"


async def test_lone_surrogate_costs_only_itself(pool):
    tools = await open_named_tools(configured(it=raw(timeout_seconds=5)), pool)
    assert await call_tool(tools["halves"]) == "half ? of one"


async def test_invalid_output_lines_are_ignored(pool, caplog):
    tools = await open_named_tools(configured(it=raw()), pool)
    with caplog.at_level(logging.DEBUG, "mcp_bridge"):
        assert await call_tool(tools["rubbish"]) == "still here"
    assert "stderr: Listening on port 1" in caplog.text
    assert {record.levelname for record in caplog.records} == {"DEBUG"}


@pytest.mark.parametrize(
    ("tool", "error", "message"),
    [
        ("fail", ToolFailed, "^the oven is cold$"),
        ("overload", CallRefused, "'it' refused the call: come back later"),
        ("refuse", CallRefused, "'it' refused the call: text must be short"),
        ("wrong", ServerReplyInvalid, "'it' sent a malformed response"),
    ],
)
async def test_tool_error_keeps_the_session(pool, tool, error, message):
    tools = await open_named_tools(configured(it=raw()), pool)
    pid = await call_tool(tools["pid"])
    with pytest.raises(error, match=message) as caught:
        await call_tool(tools[tool])
    assert isinstance(caught.value, ServerFailed)
    assert await call_tool(tools["pid"]) == pid


async def test_grandchildren_end_with_the_child(pool):
    tools = await open_named_tools(configured(it=raw("stubborn")), pool)
    pids = [int(await call_tool(tools[name])) for name in ("pid", "spawn")]
    await pool.close()
    assert all([await has_exited(pid) for pid in pids])


async def test_missing_command_is_named(pool, caplog):
    config = configured(it=raw().model_copy(update={"command": "no-such-thing"}))
    tools = await open_named_tools(config, pool)
    assert list(tools) == ["it_unreachable"]
    about = tools["it_unreachable"].description
    assert "the MCP server 'it' cannot start." in about
    assert "no-such-thing" not in about
    assert "its command 'no-such-thing' is missing" in caplog.text


async def test_unexecutable_command_states_the_reason(pool, tmp_path, caplog):
    script = tmp_path / "server"
    script.write_text("no program")
    script.chmod(0o755)
    server = raw().model_copy(update={"command": "./server"})
    tools = await open_named_tools(configured(tmp_path, it=server), pool)
    assert "ended with exit code 126" in tools["it_unreachable"].description
    assert "Exec format error" in caplog.text


async def test_missing_directory_is_named(pool):
    tools = await open_named_tools(configured(it=raw(cwd="nowhere")), pool)
    about = tools["it_unreachable"].description
    assert "cannot start" in about
    assert "nowhere" not in about


async def test_exit_message_is_quoted_without_secrets(pool, caplog):
    server = raw("exit", env={"KEY": KEY})
    tools = await open_named_tools(configured(it=server), pool)
    about = tools["it_unreachable"].description
    assert "the MCP server 'it' ended with exit code 4" in about
    assert "key" not in about
    assert "the key *** is wrong" in caplog.text
    assert await call_tool(tools["it_unreachable"]) == about


async def test_silent_child_times_out():
    pool = SessionPool(connect_seconds=0.3)
    tools = await open_named_tools(configured(it=raw("mute")), pool)
    about = tools["it_unreachable"].description
    assert "did not answer within 0.3 seconds" in about
    await pool.close()


async def test_server_of_the_sdk_works(pool):
    run = "from tests.mcp_bridge.http_servers import official; official().run('stdio')"
    server = ToolServerConfig(
        command=sys.executable, args=("-c", run), cwd="../..", env={"PYTHONPATH": "."}
    )
    tools = await open_named_tools(configured(it=server), pool)
    assert await call_tool(tools["add"], a=2, b=3) == "5"
    await call_tool(tools["change"])
    assert "newcomer" in await open_named_tools(configured(it=server), pool)


async def test_older_protocol_is_negotiated_once(pool):
    tools = await open_named_tools(configured(it=raw()), pool)
    assert "server/discover" in await call_tool(tools["methods"])
    with pytest.raises(ServerGone):
        await call_tool(tools["die"])
    assert (await call_tool(tools["methods"])).startswith("initialize")


PARENT = """
import asyncio, sys
from pathlib import Path
import os
import django
os.environ["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
django.setup()
from mcp_bridge.client.session_pool import SessionPool
from tests.mcp_bridge.conftest import call_tool, configured, open_named_tools, raw

async def main():
    tools = await open_named_tools(configured(it=raw("stubborn")), SessionPool())
    print(await call_tool(tools["pid"]), await call_tool(tools["spawn"]), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_children_end_when_the_parent_is_killed():
    root = HERE.parent.parent
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PARENT,
        stdout=asyncio.subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    pids = [int(pid) for pid in (await parent.stdout.readline()).split()]
    parent.kill()
    await parent.wait()
    assert len(pids) == 2
    for pid in pids:
        assert await has_exited(pid)


async def test_process_guard_lives_as_long_as_its_children(pool):
    tools = await open_named_tools(configured(it=raw()), pool)
    await call_tool(tools["echo"])
    (guard,) = guards()
    os.kill(guard, signal.SIGKILL)
    assert await wait_until(lambda: len(guards() - {guard}) == 1)


def guards() -> set[int]:
    """Return the ids of running guard processes."""
    found = set()
    for pid in children():
        # A process may end before its file is opened, or between that and reading it.
        with suppress(FileNotFoundError, ProcessLookupError):
            if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(pid)
    return found
