import asyncio
import time
import uuid
from itertools import pairwise

import pytest

from core.ids import UserId
from mcp_bridge.client import server_session, stdio
from mcp_bridge.client import session_pool as pools
from mcp_bridge.client.session_pool import SessionPool
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.errors import (
    ServerFailed,
    ServerGone,
    ServerUnreachable,
    StillConnecting,
)
from tests.mcp_bridge.conftest import (
    HERE,
    TEST_SECONDS,
    call_tool,
    configured,
    has_exited,
    open_named_tools,
    raw,
    wait_until,
)

pytestmark = pytest.mark.usefixtures("no_leaks")


def target_for(name="it", server=None, **fields) -> ServerTarget:
    return ServerTarget(name, server or raw(), HERE, **fields)


async def pid(pool, address):
    async with pool.session(address) as session:
        answer = await session.call("pid", {})
    return int(answer.content[0].text)


async def eventually(happened) -> None:
    assert await wait_until(happened)


async def test_parallel_callers_share_one_session(pool):
    address = target_for()
    assert len({*await asyncio.gather(*(pid(pool, address) for _ in range(10)))}) == 1


async def test_users_have_separate_sessions(pool):
    users = [UserId(uuid.uuid4()) for _ in range(2)]
    pids = [await pid(pool, target_for(user_id=user)) for user in (*users, *users)]
    assert pids[:2] == pids[2:]
    assert pids[0] != pids[1]


async def test_cancelled_caller_does_not_stop_the_opening(pool):
    address = target_for()
    opening = asyncio.create_task(pid(pool, address))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    assert len(pool) == 1
    assert await pid(pool, address)


async def test_least_recently_used_session_is_closed():
    pool = SessionPool(capacity=2)
    first, second, third = (target_for(name) for name in ("a", "b", "c"))
    pids = [await pid(pool, address) for address in (first, second)]
    await pid(pool, first)
    await pid(pool, third)
    assert await has_exited(pids[1])
    assert await pid(pool, first) == pids[0]
    assert len(pool) == 2
    await pool.close()


async def test_session_in_use_is_not_evicted():
    pool = SessionPool(capacity=1)
    async with pool.session(target_for("a")) as session:
        await pid(pool, target_for("b"))
        async with pool.session(target_for("a")) as again:
            assert again is session
        assert (await session.call("echo", {"text": "here"})).content[0].text == "here"
    await pool.close()


async def test_idle_session_is_closed():
    pool = SessionPool(idle_seconds=0.05)
    number = await pid(pool, target_for())
    assert await has_exited(number)
    assert len(pool) == 0
    assert await pid(pool, target_for()) != number
    await pool.close()


async def test_session_in_use_is_not_idle():
    pool = SessionPool(idle_seconds=0.02)
    async with pool.session(target_for()) as session:
        await pid(pool, target_for())
        await asyncio.sleep(0.06)
        await session.call("echo", {})
        assert len(pool) == 1
    await eventually(lambda: len(pool) == 0)
    await pool.close()


async def test_failure_backoff_grows(pool, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("mcp_bridge.client.session_pool.monotonic", lambda: now[0])
    started = []
    monkeypatch.setattr(SessionPool, "_open", counted(SessionPool._open, started))
    address = target_for(server=raw("exit"))

    async def fail():
        with pytest.raises(ServerUnreachable, match="ended with exit code 4"):
            await pid(pool, address)

    tries = []
    for _ in range(130):
        await fail()
        if len(started) > len(tries):
            tries.append(now[0])
        now[0] += 1
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses == [5, 10, 20, 40]


def counted(function, calls):
    def wrapper(*args):
        calls.append(args)
        return function(*args)

    return wrapper


async def test_changed_configuration_is_tried_at_once(pool):
    with pytest.raises(ServerFailed):
        await pid(pool, target_for(server=raw("exit")))
    assert await pid(pool, target_for(server=raw()))


async def test_sessions_of_removed_or_changed_servers_end(pool):
    before = configured(left=raw(), changed=raw(), kept=raw())
    tools = {
        n: await open_named_tools(before, pool, n) for n in ("left", "changed", "kept")
    }
    pids = {name: int(await call_tool(found["pid"])) for name, found in tools.items()}
    after = configured(changed=raw(env={"A": "1"}), kept=raw())
    found = await open_named_tools(after, pool, "kept")
    assert int(await call_tool(found["pid"])) == pids["kept"]
    assert await has_exited(pids["left"])
    assert await has_exited(pids["changed"])


async def test_session_ends_after_its_running_call(pool):
    config = configured(it=raw())
    await open_named_tools(config, pool)
    async with pool.session(target_for()) as session:
        pool.apply_config(configured())
        assert len(pool) == 0
        assert (await session.call("echo", {"text": "still"})).content[0].text
    await eventually(lambda: session.has_ended)


async def test_close_ends_sessions_and_running_calls():
    pool = SessionPool()
    tools = await open_named_tools(configured(it=raw()), pool)
    number = int(await call_tool(tools["pid"]))
    hanging = asyncio.create_task(call_tool(tools["hang"]))
    await call_tool(tools["echo"])
    await pool.close()
    with pytest.raises(ServerFailed):
        await hanging
    assert await has_exited(number)
    await pool.close()


def test_each_event_loop_has_separate_sessions():
    pool = SessionPool()

    async def turn():
        number = await pid(pool, target_for())
        await pool.close()
        return number

    assert asyncio.run(turn()) != asyncio.run(turn())


async def test_slow_start_is_limited_by_the_callers_timeout(pool, tmp_path):
    address = target_for(server=raw("sleepy", env={"GO": str(tmp_path / "go")}))
    with pytest.raises(StillConnecting, match="is not open yet"):
        async with pool.session(address, wait_seconds=0.01):
            raise AssertionError
    assert len(pool) == 1
    (tmp_path / "go").touch()
    # It went on being opened, and this is the same one.
    assert await pid(pool, address)


async def test_result_of_a_slow_start_is_kept(skip_time):
    pool = SessionPool(connect_seconds=TEST_SECONDS)
    address = target_for(server=raw("mute"))
    for _ in range(3):
        with pytest.raises(StillConnecting):
            async with pool.session(address, wait_seconds=0.01):
                raise AssertionError
    await skip_time(eventually(lambda: len(pool) == 0))
    with pytest.raises(ServerUnreachable, match="did not answer within"):
        async with pool.session(address, wait_seconds=5):
            raise AssertionError
    await pool.close()


async def test_failed_server_is_waited_for_only_briefly(monkeypatch, skip_time):
    monkeypatch.setattr(pools, "MIN_BACKOFF_SECONDS", 0.0)
    monkeypatch.setattr(pools, "RETRY_WAIT_SECONDS", 0.01)
    pool = SessionPool(connect_seconds=TEST_SECONDS)
    address = target_for(server=raw("mute"))
    with pytest.raises(ServerUnreachable):
        await skip_time(pid(pool, address))
    with pytest.raises(StillConnecting):
        async with pool.session(address, wait_seconds=5):
            raise AssertionError
    await pool.close()


async def test_close_ends_sessions_that_are_opening():
    pool = SessionPool()
    with pytest.raises(StillConnecting):
        async with pool.session(target_for(server=raw("mute")), wait_seconds=0.01):
            raise AssertionError
    await pool.close()


async def test_close_does_not_wait_for_children(monkeypatch):
    monkeypatch.setattr(stdio, "GRACE_SECONDS", TEST_SECONDS)
    pool = SessionPool()
    child = await pid(pool, target_for(server=raw("stubborn")))
    began = time.monotonic()
    await pool.close()
    assert time.monotonic() - began < server_session.CLOSE_SECONDS
    assert await has_exited(child)


async def test_exit_reason_is_kept_until_the_next_session(pool):
    address = target_for()
    async with pool.session(address) as session:
        with pytest.raises(ServerGone):
            await session.call("die", {})
        sessions, error = pool.open_sessions("it")
        assert (sessions, error.last_lines) == ([], ["I cannot go on"])
    assert "ended with exit code 3" in pool.open_sessions("it")[1].message
    assert pool.open_sessions("other") == ([], None)
    await pid(pool, address)
    assert pool.open_sessions("it")[1] is None


async def test_regular_end_has_no_exit_reason(pool):
    address = target_for()
    async with pool.session(address) as session:
        pass
    await pool.close()
    assert session.exit_error is None
    assert pool.open_sessions("it") == ([], None)


async def test_exit_reason_of_a_removed_server_is_dropped(pool):
    async with pool.session(target_for()) as session:
        with pytest.raises(ServerGone):
            await session.call("die", {})
    pool.apply_config(configured())
    assert pool.open_sessions("it") == ([], None)
