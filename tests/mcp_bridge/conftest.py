"""Real servers of tools: children and over HTTP, well-behaved and not."""

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
PATIENCE_SECONDS = 60
"""What happens at once where nothing else runs may take long on a busy machine."""

T = TypeVar("T")


def raw(mode: str = "", **fields) -> ToolServerConfig:
    """A child that does what it is told, even the wrong thing."""
    return ToolServerConfig(
        command=sys.executable,
        args=("-I", "-S", str(HERE / "raw_child.py"), mode),
        **fields,
    )


def configured(folder: Path = HERE, /, **servers: ToolServerConfig) -> Config:
    return Config(folder / "coulisse.yaml", {"mcp": servers}, uuid.uuid4().hex)


class Nobody:
    """Credentials of users who never signed in anywhere."""

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


NOBODY = Nobody()


async def opened(
    config: Config, pool: SessionPool, *names: str, user_id=USER, by=NOBODY
):
    """The tools of those servers, by their names."""
    grants = [ServerGrant(name, None) for name in names or config.values["mcp"]]
    tools = await open_tools(config, grants, user_id, pool=pool, credentials=by)
    return {tool.name: tool for tool in tools}


async def use(tool, **arguments) -> ToolResult:
    return await tool.call(arguments, TracedToolCall(tool.name, tool.kind, "{}"))


@pytest.fixture(autouse=True)
def _no_turn_is_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolset, "TIMEOUT_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
async def pool() -> AsyncIterator[SessionPool]:
    pool = SessionPool(connect_seconds=PATIENCE_SECONDS)
    yield pool
    await pool.close()


@pytest.fixture
async def spick_and_span() -> AsyncIterator[None]:
    """Nothing is left behind: no child, no way to one, no task."""
    before = held()
    yield
    # Fewer, when a server in this process was still closing what went before.
    if not await comes_true(
        lambda: all(now <= then for now, then in zip(held(), before, strict=True))
    ):
        assert held() == before


@pytest.fixture
async def passes(monkeypatch: pytest.MonkeyPatch) -> "Passes":
    """The event loop's clock, which is put forward until something is over."""
    loop, ahead = asyncio.get_running_loop(), [0.0]
    time = loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + ahead[0])

    async def passes(awaited: Awaitable[T]) -> T:
        doing = asyncio.ensure_future(awaited)
        while not doing.done():
            ahead[0] += PATIENCE_SECONDS
            await asyncio.wait({doing}, timeout=0.01)
        return doing.result()

    return passes


Passes = Callable[[Awaitable[T]], Awaitable[T]]


async def comes_true(condition: Callable[[], object]) -> bool:
    """Wait for a condition; say whether it came true."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.01)
    return True


def held() -> tuple[int, int, int]:
    """How many children, ways to them, and tasks there are."""
    return len(children()), descriptors(), len(asyncio.all_tasks())


def children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def descriptors() -> int:
    """How many pipes and local sockets are open: the ways to children.

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
    except FileNotFoundError:
        return False
    return state != "Z"


async def gone(pid: int) -> bool:
    """Whether a process ends."""
    return await comes_true(lambda: not is_alive(pid))
