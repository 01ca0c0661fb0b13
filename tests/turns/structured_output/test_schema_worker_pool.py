"""The children that check schemas: their number, limits and replacement."""

import asyncio
import os
import signal
from typing import Any

import orjson
import psutil
import pytest

from core.child_processes.process_group import ProcessGroup
from turns.errors import SchemaChecksBusy
from turns.structured_output import schema_worker_pool
from turns.structured_output.schema_worker_pool import CheckTooCostly

GOOD = b'{"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}'


def doubling(keyword: str, levels: int = 40) -> bytes:
    definitions: dict[str, Any] = {f"d{levels}": {"type": "integer"}}
    for level in range(levels):
        deeper = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {keyword: [deeper, deeper]}
    return orjson.dumps({"$defs": definitions, "$ref": "#/$defs/d0"})


def children() -> list[psutil.Process]:
    """Return the children that check schemas, zombies included."""
    found = []
    for process in psutil.Process().children():
        try:
            is_ours = "turns.structured_output.schema_worker" in process.cmdline()
        except psutil.ZombieProcess:
            is_ours = True
        except psutil.NoSuchProcess:
            is_ours = False
        if is_ours:
            found.append(process)
    return found


@pytest.fixture
async def closed():
    """Ends the children of the test's event loop."""
    before = set(children())
    yield
    await schema_worker_pool.close()
    assert not set(children()) - before


def idle_pids() -> list[int]:
    return [child.pid for child in schema_worker_pool._current_pool().idle]


async def test_value_is_checked(closed):
    assert await schema_worker_pool.compile_error(GOOD) is None
    assert await schema_worker_pool.first_error(GOOD, b"5") is None
    error = await schema_worker_pool.first_error(GOOD, b'"x"')
    assert error == '"x" is not of type "integer"'


async def test_invalid_schema_is_named(closed):
    error = await schema_worker_pool.compile_error(b'{"type": "strange"}')
    assert error is not None
    assert '"strange" is not valid' in error


async def test_child_answers_more_than_once(closed):
    await schema_worker_pool.compile_error(GOOD)
    before = idle_pids()
    await schema_worker_pool.first_error(GOOD, b"5")
    assert idle_pids() == before
    assert len(before) == 1


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
async def test_costly_check_is_ended_and_its_child_replaced(closed, keyword):
    value = b"5" if keyword == "allOf" else b'"x"'
    with pytest.raises(CheckTooCostly):
        await schema_worker_pool.first_error(doubling(keyword), value)
    assert idle_pids() == []
    assert await schema_worker_pool.first_error(GOOD, b"5") is None


@pytest.fixture
def endings(monkeypatch) -> list[int | None]:
    """The return codes of ended children; None for a child that was still running."""
    found: list[int | None] = []
    close = ProcessGroup.close

    async def watched(child: ProcessGroup) -> None:
        found.append(await child.wait(20))
        await close(child)

    monkeypatch.setattr(ProcessGroup, "close", watched)
    monkeypatch.setattr(schema_worker_pool, "CHECK_SECONDS", 60)
    return found


async def test_child_memory_is_limited(closed, endings):
    huge = b'"' + b"x" * 300_000_000 + b'"'
    with pytest.raises(CheckTooCostly, match="memory"):
        await schema_worker_pool.first_error(GOOD, huge)
    assert None not in endings


async def test_child_cpu_time_is_limited(closed, endings):
    options = [{"a": number} for number in range(4000)]
    slow = orjson.dumps({"items": {"enum": options}})
    value = orjson.dumps([options[-1]] * 100_000)
    with pytest.raises(CheckTooCostly, match="time"):
        await schema_worker_pool.first_error(slow, value)
    assert endings == [-signal.SIGXCPU]


async def test_dead_child_is_replaced(closed):
    await schema_worker_pool.compile_error(GOOD)
    (pid,) = idle_pids()
    os.kill(pid, signal.SIGKILL)
    assert await schema_worker_pool.first_error(GOOD, b"5") is None
    assert idle_pids() != [pid]


async def test_child_of_a_cancelled_check_is_ended(closed):
    await schema_worker_pool.compile_error(GOOD)
    (pid,) = idle_pids()
    checking = asyncio.create_task(
        schema_worker_pool.first_error(doubling("anyOf"), b'"x"')
    )
    while idle_pids():  # noqa: ASYNC110 (nothing announces it)
        await asyncio.sleep(0)
    checking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await checking
    assert not psutil.pid_exists(pid)


async def test_child_environment_has_no_secrets(closed, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    await schema_worker_pool.compile_error(GOOD)
    (pid,) = idle_pids()
    environment = psutil.Process(pid).environ()
    assert "OPENAI_API_KEY" not in environment
    assert set(environment) <= {"PYTHONPATH", "LC_CTYPE", "__CF_USER_TEXT_ENCODING"}


async def test_number_of_children_is_limited(closed):
    most = 0
    checks = asyncio.gather(
        *(schema_worker_pool.first_error(GOOD, b"%d" % number) for number in range(20))
    )
    before = set(children())
    while not checks.done():
        most = max(most, len(set(children()) - before))
        await asyncio.sleep(0.01)
    assert await checks == [None] * 20
    assert 0 < most <= schema_worker_pool.MAX_CHILDREN
    assert len(idle_pids()) <= schema_worker_pool.MAX_IDLE


async def test_new_schemas_are_refused_while_too_many_wait(closed, monkeypatch):
    monkeypatch.setattr(schema_worker_pool, "MAX_WAITING", 2)
    slots = schema_worker_pool._current_pool().slots
    for _ in range(schema_worker_pool.MAX_CHILDREN):
        await slots.acquire()
    waiting = [
        asyncio.create_task(schema_worker_pool.compile_error(GOOD)) for _ in range(2)
    ]
    await asyncio.sleep(0)
    with pytest.raises(SchemaChecksBusy):
        await schema_worker_pool.compile_error(GOOD)
    checking = asyncio.create_task(schema_worker_pool.first_error(GOOD, b"5"))
    await asyncio.sleep(0)
    for _ in range(schema_worker_pool.MAX_CHILDREN):
        slots.release()
    assert await asyncio.gather(*waiting, checking) == [None] * 3


async def test_waiting_for_a_child_times_out(closed, monkeypatch):
    monkeypatch.setattr(schema_worker_pool, "MAX_WAIT_SECONDS", 0.01)
    slots = schema_worker_pool._current_pool().slots
    for _ in range(schema_worker_pool.MAX_CHILDREN):
        await slots.acquire()
    with pytest.raises(SchemaChecksBusy):
        await schema_worker_pool.first_error(GOOD, b"5")
    assert schema_worker_pool._current_pool().waiting == 0


async def test_child_start_failure_is_503(closed, monkeypatch, caplog):
    monkeypatch.setattr(schema_worker_pool.sys, "executable", "/nowhere/python")
    with pytest.raises(SchemaChecksBusy):
        await schema_worker_pool.compile_error(GOOD)
    assert "did not start" in caplog.text


async def test_missing_memory_limit_is_logged_once(closed, monkeypatch, caplog):
    schema_worker_pool._warn_unlimited.cache_clear()
    for _ in range(2):
        schema_worker_pool._warn_unlimited("not here")
    assert caplog.text.count("without a memory limit: not here") == 1
