"""The sessions of this process, kept open between turns."""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from weakref import WeakKeyDictionary

from config.sections import Config
from mcp_bridge.client.server_session import McpSession
from mcp_bridge.client.target import ServerTarget, SessionKey
from mcp_bridge.config import MCP
from mcp_bridge.errors import ServerFailed, SignInNeeded, StillConnecting

logger = logging.getLogger(__name__)

MIN_BACKOFF_SECONDS = 5.0
MAX_BACKOFF_SECONDS = 60.0
RETRY_WAIT_SECONDS = 0.5
"""How long to wait for a server that failed the last time."""
CLOSE_SECONDS = 0.5
"""How long to wait for servers at shutdown; the supervisor's limit is short."""
MAX_REMEMBERED = 1000
"""The number of keys whose failures and warnings are remembered."""
MAX_WARNINGS = 20
"""The maximum number of warnings about one server."""


@dataclass(slots=True)
class _PooledSession:
    session: McpSession
    users: int = 0
    """The number of running calls and openings."""
    begun_at: float = field(default_factory=monotonic)
    used_at: float = field(default_factory=monotonic)
    is_watched: bool = False
    """Whether a task watches its opening."""
    is_free: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> None:
        self.users += 1
        self.is_free.clear()

    def leave(self) -> None:
        self.users -= 1
        self.used_at = monotonic()
        if not self.users:
            self.is_free.set()


@dataclass(frozen=True, slots=True)
class _OpenFailure:
    error: ServerFailed
    until: float
    pause_seconds: float


class _LoopSessions:
    """The sessions of one event loop."""

    def __init__(self) -> None:
        self.kept: OrderedDict[SessionKey, _PooledSession] = OrderedDict()
        """In order of use, the most recent last."""
        self.failures: OrderedDict[SessionKey, _OpenFailure] = OrderedDict()
        self.fallen: OrderedDict[SessionKey, ServerFailed] = OrderedDict()
        """Children that exited by themselves, without a caller since then."""
        self.closing: dict[asyncio.Task[None], _PooledSession] = {}
        self.watching: set[asyncio.Task[None]] = set()
        self.sweep: asyncio.TimerHandle | None = None
        self.config_digest: str | None = None


class SessionPool:
    """Sessions by server and user: opened once, shared, closed when idle."""

    def __init__(
        self,
        capacity: int = 256,
        idle_seconds: float = 1800,
        connect_seconds: float = 20,
    ) -> None:
        self._capacity = capacity
        self._idle_seconds = idle_seconds
        self._connect_seconds = connect_seconds
        self._shelves: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopSessions] = (
            WeakKeyDictionary()
        )
        self._said: OrderedDict[tuple[str, str], set[str]] = OrderedDict()
        self._legacy: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self._loop_sessions().kept)

    @asynccontextmanager
    async def session(
        self, address: ServerTarget, *, patience_seconds: float = math.inf
    ) -> AsyncIterator[McpSession]:
        """Provide the open session of a target; it is shared with other callers.

        Concurrent callers wait for the same opening session, but at most
        `patience_seconds`, and only briefly for one that failed the last time; the
        opening continues. Raises `ServerFailed`, immediately for a while after a
        failure.
        """
        kept = self._take(address)
        try:
            await self._wait_open(address, kept, patience_seconds)
        except ServerFailed as exc:
            self._failed(address.key, kept, exc)
            raise
        except BaseException:
            kept.leave()
            raise
        try:
            self._record_success(address.key, kept)
            yield kept.session
        finally:
            self._give_back(address.key, kept)

    def apply_config(self, config: Config) -> None:
        """End the sessions of servers that were removed or changed in the YAML."""
        shelf = self._loop_sessions()
        if shelf.config_digest == config.digest and config.digest:
            return
        shelf.config_digest = config.digest
        servers = config.get(MCP)
        for key in list(shelf.kept):
            server = servers.get(key.server)
            if server is None or not key.digest.startswith(server.digest):
                self._drop(key)
        for key in list(shelf.fallen):
            server = servers.get(key.server)
            if server is None or not key.digest.startswith(server.digest):
                del shelf.fallen[key]

    def warn_once(self, address: ServerTarget, what: str) -> None:
        """Log a warning about a server once, up to a maximum number."""
        key = (address.name, address.server.digest)
        said = self._said.setdefault(key, set())
        if what in said or len(said) > MAX_WARNINGS:
            return
        said.add(what)
        if len(said) > MAX_WARNINGS:
            what = "further warnings about this server are not logged"
        if len(self._said) > MAX_REMEMBERED:
            self._said.popitem(last=False)
        logger.warning("mcp server '%s': %s", address.name, what)

    def open_sessions(
        self, server: str
    ) -> tuple[list[McpSession], ServerFailed | None]:
        """Return this event loop's open sessions with a server, or its failure."""
        shelf = self._loop_sessions()
        sessions = [
            kept.session
            for key, kept in shelf.kept.items()
            if key.server == server and kept.session.is_open
        ]
        if sessions:
            return sessions, None
        fallen = {key: kept.session.exit_error for key, kept in shelf.kept.items()}
        failures = {key: failure.error for key, failure in shelf.failures.items()}
        errors = [
            error
            for key, error in {**shelf.fallen, **fallen, **failures}.items()
            if key.server == server and error is not None
        ]
        return [], errors[-1] if errors else None

    def clear_failure(self, address: ServerTarget) -> None:
        """Allow an immediate retry of a failed server."""
        self._loop_sessions().failures.pop(address.key, None)

    async def close(self) -> None:
        """End every session of this event loop, and wait until they are gone."""
        shelf = self._shelves.pop(asyncio.get_running_loop(), None)
        if shelf is None:
            return
        if shelf.sweep is not None:
            shelf.sweep.cancel()
        for kept in shelf.closing.values():
            kept.is_free.set()
        sessions = [kept.session.close(CLOSE_SECONDS) for kept in shelf.kept.values()]
        await asyncio.gather(
            *sessions, *shelf.closing, *shelf.watching, return_exceptions=True
        )

    def _loop_sessions(self) -> _LoopSessions:
        return self._shelves.setdefault(asyncio.get_running_loop(), _LoopSessions())

    def _take(self, address: ServerTarget) -> _PooledSession:
        shelf, key = self._loop_sessions(), address.key
        kept = shelf.kept.get(key)
        if kept is None or kept.session.has_ended:
            self._check_backoff(key)
            self._drop(key)
            self._close_older(key)
            kept = shelf.kept[key] = _PooledSession(self._open(address))
        else:
            kept.session.update_token(address)
        shelf.kept.move_to_end(key)
        kept.take()
        self._make_room()
        return kept

    async def _wait_open(
        self, address: ServerTarget, kept: _PooledSession, patience: float
    ) -> None:
        if kept.session.is_open:
            return
        if address.key in self._loop_sessions().failures:
            patience = min(patience, RETRY_WAIT_SECONDS)
        left = kept.begun_at + patience - monotonic()
        try:
            async with asyncio.timeout(None if left == math.inf else left):
                await kept.session.wait_open()
        except TimeoutError:
            self._watch(address.key, kept)
            raise StillConnecting(
                f"the connection to the MCP server '{address.name}' is not open yet",
                server=address.name,
            ) from None

    def _watch(self, key: SessionKey, kept: _PooledSession) -> None:
        """Watch an opening, so that later callers know its result."""
        if kept.is_watched:
            return
        kept.is_watched = True
        kept.take()
        watching = self._loop_sessions().watching
        task = asyncio.create_task(self._watch_opening(key, kept))
        watching.add(task)
        task.add_done_callback(watching.discard)

    async def _watch_opening(self, key: SessionKey, kept: _PooledSession) -> None:
        try:
            await kept.session.wait_open()
        except ServerFailed as exc:
            self._failed(key, kept, exc)
        else:
            self._record_success(key, kept)
            self._give_back(key, kept)

    def _open(self, address: ServerTarget) -> McpSession:
        return McpSession(
            address,
            connect_seconds=self._connect_seconds,
            is_legacy=(address.name, address.server.digest) in self._legacy,
            warn=lambda what: self.warn_once(address, what),
        )

    def _check_backoff(self, key: SessionKey) -> None:
        failure = self._loop_sessions().failures.get(key)
        if failure is not None and monotonic() < failure.until:
            # A new one each time: a traceback would grow with each raise.
            error = failure.error
            raise type(error)(error.message, server=error.server, detail=error.detail)

    def _failed(
        self, key: SessionKey, kept: _PooledSession, error: ServerFailed
    ) -> None:
        """Record a failed session, with a longer retry delay each time."""
        kept.leave()
        shelf = self._loop_sessions()
        if isinstance(error, StillConnecting) or shelf.kept.get(key) is not kept:
            # It may still open; or another waiting caller has recorded the failure.
            return
        self._drop(key)
        if isinstance(error, SignInNeeded):
            return
        before = shelf.failures.pop(key, None)
        pause = MIN_BACKOFF_SECONDS
        if before is not None:
            pause = min(before.pause_seconds * 2, MAX_BACKOFF_SECONDS)
        logger.warning("%s; no new attempt for %.0f s", error, pause)
        shelf.failures[key] = _OpenFailure(error, monotonic() + pause, pause)
        if len(shelf.failures) > MAX_REMEMBERED:
            shelf.failures.popitem(last=False)

    def _record_success(self, key: SessionKey, kept: _PooledSession) -> None:
        shelf = self._loop_sessions()
        shelf.failures.pop(key, None)
        for other in list(shelf.fallen):
            if (other.server, other.user_id) == (key.server, key.user_id):
                del shelf.fallen[other]
        if kept.session.is_legacy:
            server = kept.session.address
            self._legacy.add((server.name, server.server.digest))

    def _give_back(self, key: SessionKey, kept: _PooledSession) -> None:
        kept.leave()
        shelf = self._loop_sessions()
        if shelf.kept.get(key) is kept and kept.session.has_ended:
            self._drop(key)
        self._make_room()
        if shelf.sweep is None and shelf.kept:
            self._sweep_in(self._idle_seconds)

    def _close_older(self, key: SessionKey) -> None:
        """End the same user's sessions with the server's old configuration."""
        for other in list(self._loop_sessions().kept):
            is_same = other.server == key.server and other.user_id == key.user_id
            if is_same and other != key:
                self._drop(other)

    def _make_room(self) -> None:
        """Close the least recently used sessions; busy ones stay."""
        kept = self._loop_sessions().kept
        excess = len(kept) - self._capacity
        for key in [key for key, one in kept.items() if not one.users][
            : max(excess, 0)
        ]:
            self._drop(key)

    def _drop(self, key: SessionKey) -> None:
        shelf = self._loop_sessions()
        kept = shelf.kept.pop(key, None)
        if kept is not None:
            error = kept.session.exit_error
            if error is not None:
                shelf.fallen[key] = error
                if len(shelf.fallen) > MAX_REMEMBERED:
                    shelf.fallen.popitem(last=False)
            task = asyncio.create_task(self._close_when_free(kept))
            shelf.closing[task] = kept
            task.add_done_callback(shelf.closing.pop)

    async def _close_when_free(self, kept: _PooledSession) -> None:
        # Running calls end with their answer; they have their own timeout.
        if kept.users and not kept.session.has_ended:
            await kept.is_free.wait()
        await kept.session.close()

    def _sweep_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._loop_sessions().sweep = loop.call_later(max(seconds, 0.01), self._sweep)

    def _sweep(self) -> None:
        """Close sessions that were idle for long."""
        shelf = self._loop_sessions()
        shelf.sweep = None
        oldest = monotonic() - self._idle_seconds
        for key, kept in list(shelf.kept.items()):
            if not kept.users and kept.used_at <= oldest:
                self._drop(key)
        if shelf.kept:
            # What is in use may be so for an hour: no sooner than for all others.
            idle = [kept.used_at for kept in shelf.kept.values() if not kept.users]
            self._sweep_in(min(idle, default=monotonic()) - oldest)
