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
from core.runtime.backoff import Backoff
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
    created_at: float = field(default_factory=monotonic)
    used_at: float = field(default_factory=monotonic)
    is_watched: bool = False
    """Whether a task watches its opening."""
    is_free: asyncio.Event = field(default_factory=asyncio.Event)

    def acquire(self) -> None:
        self.users += 1
        self.is_free.clear()

    def release(self) -> None:
        self.users -= 1
        self.used_at = monotonic()
        if not self.users:
            self.is_free.set()


@dataclass(frozen=True, slots=True)
class _OpenFailure:
    error: ServerFailed
    until: float
    backoff: Backoff


class _LoopSessions:
    def __init__(self) -> None:
        self.pooled: OrderedDict[SessionKey, _PooledSession] = OrderedDict()
        """In order of use, the most recent last."""
        self.failures: OrderedDict[SessionKey, _OpenFailure] = OrderedDict()
        self.exited: OrderedDict[SessionKey, ServerFailed] = OrderedDict()
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
        self._states: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopSessions] = (
            WeakKeyDictionary()
        )
        self._warnings: OrderedDict[tuple[str, str], set[str]] = OrderedDict()
        self._legacy: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self._loop_sessions().pooled)

    @asynccontextmanager
    async def session(
        self, target: ServerTarget, *, wait_seconds: float = math.inf
    ) -> AsyncIterator[McpSession]:
        """Provide the open session of a target; it is shared with other callers.

        Concurrent callers wait for the same opening session, but at most
        `wait_seconds`, and only briefly for one that failed the last time; the
        opening continues. Raises `ServerFailed`, immediately for a while after a
        failure.
        """
        pooled = self._acquire(target)
        try:
            await self._wait_open(target, pooled, wait_seconds)
        except ServerFailed as exc:
            self._record_failure(target.key, pooled, exc)
            raise
        except BaseException:
            pooled.release()
            raise
        try:
            self._record_success(target.key, pooled)
            yield pooled.session
        finally:
            self._release(target.key, pooled)

    def apply_config(self, config: Config) -> None:
        """End the sessions of servers that were removed or changed in the YAML."""
        state = self._loop_sessions()
        if state.config_digest == config.digest and config.digest:
            return
        state.config_digest = config.digest
        servers = config.get(MCP)
        for key in {*state.pooled, *state.exited}:
            server = servers.get(key.server)
            if server is None or not key.digest.startswith(server.digest):
                self._drop(key)
                state.exited.pop(key, None)

    def warn_once(self, target: ServerTarget, problem: str) -> None:
        """Log a warning about a server once, up to a maximum number."""
        key = (target.name, target.server.digest)
        logged = self._warnings.setdefault(key, set())
        if problem in logged or len(logged) > MAX_WARNINGS:
            return
        logged.add(problem)
        if len(logged) > MAX_WARNINGS:
            problem = "further warnings about this server are not logged"
        if len(self._warnings) > MAX_REMEMBERED:
            self._warnings.popitem(last=False)
        logger.warning("mcp server '%s': %s", target.name, problem)

    def open_sessions(
        self, server: str
    ) -> tuple[list[McpSession], ServerFailed | None]:
        """Return this event loop's open sessions with a server, or its failure."""
        state = self._loop_sessions()
        sessions = [
            pooled.session
            for key, pooled in state.pooled.items()
            if key.server == server and pooled.session.is_open
        ]
        if sessions:
            return sessions, None
        exited = {
            key: pooled.session.exit_error for key, pooled in state.pooled.items()
        }
        failures = {key: failure.error for key, failure in state.failures.items()}
        errors = [
            error
            for key, error in {**state.exited, **exited, **failures}.items()
            if key.server == server and error is not None
        ]
        return [], errors[-1] if errors else None

    def clear_failure(self, target: ServerTarget) -> None:
        """Allow an immediate retry of a failed server."""
        self._loop_sessions().failures.pop(target.key, None)

    async def close(self) -> None:
        """End every session of this event loop, and wait until they are gone."""
        state = self._states.pop(asyncio.get_running_loop(), None)
        if state is None:
            return
        if state.sweep is not None:
            state.sweep.cancel()
        for pooled in state.closing.values():
            pooled.is_free.set()
        sessions = [
            pooled.session.close(CLOSE_SECONDS) for pooled in state.pooled.values()
        ]
        await asyncio.gather(
            *sessions, *state.closing, *state.watching, return_exceptions=True
        )

    def _loop_sessions(self) -> _LoopSessions:
        return self._states.setdefault(asyncio.get_running_loop(), _LoopSessions())

    def _acquire(self, target: ServerTarget) -> _PooledSession:
        state, key = self._loop_sessions(), target.key
        pooled = state.pooled.get(key)
        if pooled is None or pooled.session.has_ended:
            self._check_backoff(key)
            self._drop(key)
            self._drop_outdated(key)
            pooled = state.pooled[key] = _PooledSession(self._open(target))
        else:
            pooled.session.update_token(target)
        state.pooled.move_to_end(key)
        pooled.acquire()
        self._evict_idle()
        return pooled

    async def _wait_open(
        self, target: ServerTarget, pooled: _PooledSession, wait_seconds: float
    ) -> None:
        if pooled.session.is_open:
            return
        if target.key in self._loop_sessions().failures:
            wait_seconds = min(wait_seconds, RETRY_WAIT_SECONDS)
        remaining = pooled.created_at + wait_seconds - monotonic()
        try:
            async with asyncio.timeout(None if remaining == math.inf else remaining):
                await pooled.session.wait_open()
        except TimeoutError:
            self._watch(target.key, pooled)
            raise StillConnecting(
                f"the connection to the MCP server '{target.name}' is not open yet",
                server=target.name,
            ) from None

    def _watch(self, key: SessionKey, pooled: _PooledSession) -> None:
        """Watch an opening, so that later callers know its result."""
        if pooled.is_watched:
            return
        pooled.is_watched = True
        pooled.acquire()
        watching = self._loop_sessions().watching
        task = asyncio.create_task(self._watch_opening(key, pooled))
        watching.add(task)
        task.add_done_callback(watching.discard)

    async def _watch_opening(self, key: SessionKey, pooled: _PooledSession) -> None:
        try:
            await pooled.session.wait_open()
        except ServerFailed as exc:
            self._record_failure(key, pooled, exc)
        else:
            self._record_success(key, pooled)
            self._release(key, pooled)

    def _open(self, target: ServerTarget) -> McpSession:
        return McpSession(
            target,
            connect_seconds=self._connect_seconds,
            is_legacy=(target.name, target.server.digest) in self._legacy,
            warn=lambda problem: self.warn_once(target, problem),
        )

    def _check_backoff(self, key: SessionKey) -> None:
        failure = self._loop_sessions().failures.get(key)
        if failure is not None and monotonic() < failure.until:
            # A new one each time: a traceback would grow with each raise.
            error = failure.error
            raise type(error)(error.message, server=error.server, detail=error.detail)

    def _record_failure(
        self, key: SessionKey, pooled: _PooledSession, error: ServerFailed
    ) -> None:
        """Record a failed session, with a longer retry delay each time."""
        pooled.release()
        state = self._loop_sessions()
        if isinstance(error, StillConnecting) or state.pooled.get(key) is not pooled:
            # It may still open; or another waiting caller has recorded the failure.
            return
        self._drop(key)
        if isinstance(error, SignInNeeded):
            return
        before = state.failures.pop(key, None)
        first = Backoff(MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
        backoff = before.backoff if before else first
        pause = backoff.next_seconds()
        logger.warning("%s; no new attempt for %.0f s", error, pause)
        state.failures[key] = _OpenFailure(error, monotonic() + pause, backoff)
        if len(state.failures) > MAX_REMEMBERED:
            state.failures.popitem(last=False)

    def _record_success(self, key: SessionKey, pooled: _PooledSession) -> None:
        state = self._loop_sessions()
        state.failures.pop(key, None)
        for other in list(state.exited):
            if (other.server, other.user_id) == (key.server, key.user_id):
                del state.exited[other]
        if pooled.session.is_legacy:
            server = pooled.session.target
            self._legacy.add((server.name, server.server.digest))

    def _release(self, key: SessionKey, pooled: _PooledSession) -> None:
        pooled.release()
        state = self._loop_sessions()
        if state.pooled.get(key) is pooled and pooled.session.has_ended:
            self._drop(key)
        self._evict_idle()
        if state.sweep is None and state.pooled:
            self._schedule_sweep(self._idle_seconds)

    def _drop_outdated(self, key: SessionKey) -> None:
        """End the same user's sessions with the server's old configuration."""
        for other in list(self._loop_sessions().pooled):
            is_same = other.server == key.server and other.user_id == key.user_id
            if is_same and other != key:
                self._drop(other)

    def _evict_idle(self) -> None:
        """Close the least recently used sessions; busy ones stay."""
        sessions = self._loop_sessions().pooled
        excess = max(len(sessions) - self._capacity, 0)
        idle = [key for key, pooled in sessions.items() if not pooled.users]
        for key in idle[:excess]:
            self._drop(key)

    def _drop(self, key: SessionKey) -> None:
        state = self._loop_sessions()
        pooled = state.pooled.pop(key, None)
        if pooled is not None:
            error = pooled.session.exit_error
            if error is not None:
                state.exited[key] = error
                if len(state.exited) > MAX_REMEMBERED:
                    state.exited.popitem(last=False)
            task = asyncio.create_task(self._close_when_free(pooled))
            state.closing[task] = pooled
            task.add_done_callback(state.closing.pop)

    async def _close_when_free(self, pooled: _PooledSession) -> None:
        # Running calls end with their answer; they have their own timeout.
        if pooled.users and not pooled.session.has_ended:
            await pooled.is_free.wait()
        await pooled.session.close()

    def _schedule_sweep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._loop_sessions().sweep = loop.call_later(max(seconds, 0.01), self._sweep)

    def _sweep(self) -> None:
        """Close sessions that were idle for long."""
        state = self._loop_sessions()
        state.sweep = None
        oldest = monotonic() - self._idle_seconds
        for key, pooled in list(state.pooled.items()):
            if not pooled.users and pooled.used_at <= oldest:
                self._drop(key)
        if state.pooled:
            # Sessions in use may stay so for an hour; they count from now.
            idle = [
                pooled.used_at for pooled in state.pooled.values() if not pooled.users
            ]
            self._schedule_sweep(min(idle, default=monotonic()) - oldest)
