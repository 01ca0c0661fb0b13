"""Fixtures for MCP servers: child processes, credentials, leak checks."""

import asyncio
import contextlib
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from config.sections import Config
from core.ids import UserId
from core.tools import ToolResult
from core.trace import TracedToolCall
from mcp_bridge import toolset
from mcp_bridge.client.session_pool import SessionPool
from mcp_bridge.config import ToolServerConfig
from mcp_bridge.oauth.errors import SignInFailed
from mcp_bridge.toolset import ServerGrant, open_tools

HERE = Path(__file__).parent
USER = UserId(uuid.uuid4())
TEST_SECONDS = 60
"""The limit of waits that are short, except on a busy machine."""

T = TypeVar("T")


def raw(mode: str = "", **fields) -> ToolServerConfig:
    """Return a child process that can misbehave."""
    return ToolServerConfig(
        command=sys.executable,
        args=("-I", "-S", str(HERE / "raw_stdio_server.py"), mode),
        **fields,
    )


def configured(folder: Path = HERE, /, **servers: ToolServerConfig) -> Config:
    return Config(folder / "coulisse.yaml", {"mcp": servers}, uuid.uuid4().hex)


class NoCredentials:
    """The credentials of users without sign-ins."""

    async def tokens(
        self, config: Config, servers: Sequence[str], user_id: UserId
    ) -> Mapping[str, str | SignInFailed]:
        return {}

    async def renew(
        self, config: Config, server: str, user_id: UserId, refused: str
    ) -> str | None:
        return None

    def link(self, config: Config, server: str, user_id: UserId) -> str:
        return f"https://me.example/mcp/{server}/connect?token={user_id}"


NO_CREDENTIALS = NoCredentials()


async def open_named_tools(
    config: Config, pool: SessionPool, *names: str, user_id=USER, by=NO_CREDENTIALS
):
    """Return the tools of servers by name."""
    grants = [ServerGrant(name, None) for name in names or config.values["mcp"]]
    tools = await open_tools(config, grants, user_id, pool=pool, credentials=by)
    return {tool.name: tool for tool in tools}


async def call_tool(tool, **arguments) -> ToolResult:
    return await tool.call(arguments, TracedToolCall(tool.name, tool.kind, "{}"))


@pytest.fixture(autouse=True)
def _long_turn_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolset, "TIMEOUT_SECONDS", TEST_SECONDS)


@pytest.fixture
async def pool() -> AsyncIterator[SessionPool]:
    pool = SessionPool(connect_seconds=TEST_SECONDS)
    yield pool
    await pool.close()


@pytest.fixture
async def no_leaks() -> AsyncIterator[None]:
    """Assert that no child process, pipe or task is left."""
    before = count_resources()
    yield
    # Fewer, when a server in this process was still closing what went before.
    if not await wait_until(
        lambda: all(
            now <= then for now, then in zip(count_resources(), before, strict=True)
        )
    ):
        assert count_resources() == before


@pytest.fixture
async def skip_time(monkeypatch: pytest.MonkeyPatch) -> "SkipTime":
    """Advance the event loop's clock until an awaitable is done."""
    loop, ahead = asyncio.get_running_loop(), [0.0]
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + ahead[0])

    async def skip_time(awaited: Awaitable[T]) -> T:
        task = asyncio.ensure_future(awaited)
        while not task.done():
            ahead[0] += TEST_SECONDS
            await asyncio.wait({task}, timeout=0.01)
        return task.result()

    return skip_time


SkipTime = Callable[[Awaitable[T]], Awaitable[T]]


async def wait_until(condition: Callable[[], object]) -> bool:
    """Wait for a condition; return whether it became true."""
    until = time.monotonic() + TEST_SECONDS
    while not condition():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.01)
    return True


def count_resources() -> tuple[int, int, int]:
    """Return the numbers of child processes, pipes and tasks."""
    return len(children()), descriptors(), len(asyncio.all_tasks())


def children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def descriptors() -> int:
    """Return the number of open pipes and local sockets.

    Not files and TCP connections: servers that other tests share open and close theirs
    meanwhile, for example for a background job of an earlier test.
    """
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    tcp = {f"socket:[{line.split()[9]}]" for line in lines}
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(each)
            found += not target.startswith("/") and target not in tcp
    return found


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def has_exited(pid: int) -> bool:
    """Return whether a process exits."""
    return await wait_until(lambda: not is_alive(pid))
