"""Broadcasts the live state of turns and tasks to this process's watchers.

The live publisher reports running turns, here and in other processes, and signals that
turns ended or tasks changed. The rows of those are read at most once a second, for all
watchers together. Slow clients lose queued messages and receive a fresh snapshot.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from database import database_executor
from database.errors import DatabaseDown
from studio.live import recent_activity
from telemetry.live_turns import running_turn_serializer
from telemetry.live_turns.active_turns import ACTIVE_TURNS
from telemetry.live_turns.live_publisher import LivePublisher, ProcessUpdate, TurnJson

FLUSH_SECONDS = 0.25
ROWS_INTERVAL_SECONDS = 1.0
"""The shortest interval between two reads of the rows."""
LATE_ROWS_SECONDS = 2.0
"""How long after a signal its row may become visible."""
MAX_ROWS_AGE_SECONDS = 5.0
"""The interval of reads without signals: without a broker no other process signals."""
KEEPALIVE_SECONDS = 5.0
"""The interval of messages to watchers while nothing happens."""
PROCESS_TIMEOUT_SECONDS = 10.0
"""A process that has not reported for so long counts as gone."""
POLL_KEEP_SECONDS = 10.0
"""How long the state is kept up to date after a poll."""
MAX_QUEUED_MESSAGES = 20
"""Messages queued for one slow watcher."""


@dataclass(slots=True)
class ProcessState:
    """The last report of one process."""

    turns: dict[str, TurnJson] = field(default_factory=dict)
    count: int = 0
    at: float = field(default_factory=time.monotonic)


class LiveWatcher:
    """The queue of one watcher."""

    def __init__(self, watchers: "LiveBroadcaster") -> None:
        self._watchers = watchers
        self._queue: asyncio.Queue[str] = asyncio.Queue(MAX_QUEUED_MESSAGES)
        self._is_behind = True

    def enqueue(self, message: str) -> None:
        """Queue a message; a full queue marks the watcher as behind."""
        try:
            self._queue.put_nowait(message)
        except asyncio.QueueFull:
            self._is_behind = True

    async def messages(self) -> AsyncIterator[str]:
        """Yield a snapshot first, then the changes."""
        while True:
            if self._is_behind:
                self._is_behind = False
                self._queue = asyncio.Queue(MAX_QUEUED_MESSAGES)
                yield await self._watchers.snapshot_message()
            else:
                yield await self._queue.get()


class LiveBroadcaster:
    """All watchers of this process, and the state that they see."""

    def __init__(self, reporter: LivePublisher) -> None:
        self._reporter = reporter
        self._watching: list[LiveWatcher] = []
        self._heard: dict[str, ProcessState] = {}
        self._changed: dict[str, TurnJson | None] = {}
        self._has_heard = False
        self._news_at = -1.0
        self._read_at = -1.0
        self._told_at = -1.0
        self._rows: dict[str, Any] = {}
        """The rows as last sent."""
        self._polled_until = -1.0
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start, on the event loop of the server."""
        self._loop = asyncio.get_running_loop()
        for part in (self._reporter.run(), self._run()):
            self._tasks.append(asyncio.create_task(part))

    async def stop(self) -> None:
        """Stop; watchers receive no further messages."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @contextlib.contextmanager
    def add_watcher(self) -> Iterator[LiveWatcher]:
        """Add a watcher for the duration of the block."""
        watcher = LiveWatcher(self)
        self._watching.append(watcher)
        self._woken.set()
        try:
            yield watcher
        finally:
            self._watching.remove(watcher)

    async def snapshot_message(self) -> str:
        """Return the message with the whole state."""
        rows: dict[str, Any] = {}
        with contextlib.suppress(DatabaseDown):
            rows = await database_executor.run(recent_activity.load_latest)
        # There is no await from here on, so later changes are sent later.
        return _message("snapshot", **self.running_turns(), **rows)

    # These may be called from any thread.

    def poll(self) -> dict[str, Any]:
        """Return the running turns to a poll; keep listening for a while."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # It has just stopped.
                self._loop.call_soon_threadsafe(self._mark_polled)
        return self.running_turns()

    def running_turns(self) -> dict[str, Any]:
        """Return the running turns, as far as processes have reported them."""
        heard = list(self._heard.values()) or [_local_state()]
        turns = [told for each in heard for told in list(each.turns.values())]
        return {
            "turns": sorted(turns, key=lambda told: str(told["started_at"])),
            "count": sum(each.count for each in heard),
            "processes": len(heard),
        }

    def _mark_polled(self) -> None:
        self._polled_until = time.monotonic() + POLL_KEEP_SECONDS
        self._woken.set()

    # These run on the event loop.

    def _has_watchers(self) -> bool:
        return bool(self._watching) or time.monotonic() < self._polled_until

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if not self._has_watchers():
                continue
            self._reporter.subscribe(self._apply_update)
            try:
                while self._has_watchers():
                    await self._broadcast()
                    await asyncio.sleep(FLUSH_SECONDS)
            finally:
                self._reporter.unsubscribe(self._apply_update)
                self._heard, self._changed = {}, {}

    def _apply_update(self, frame: ProcessUpdate) -> None:
        """Store the report of a process."""
        heard = self._heard.setdefault(frame.process, ProcessState())
        if frame.is_snapshot:
            gone = heard.turns.keys() - frame.turns.keys()
            self._changed.update(dict.fromkeys(gone))
            heard.turns.clear()
        for key, told in frame.turns.items():
            if told is None:
                heard.turns.pop(key, None)
            else:
                heard.turns[key] = told
        self._changed.update(frame.turns)
        self._has_heard = self._has_heard or heard.count != frame.count
        heard.count, heard.at = frame.count, time.monotonic()
        if frame.has_ended_turns or frame.has_changed_tasks:
            self._news_at = heard.at

    async def _broadcast(self) -> None:
        """Send the changes to all watchers, if there are any."""
        self._drop_silent_processes()
        rows = await self._changed_rows()
        changed, self._changed = self._changed, {}
        now = time.monotonic()
        is_quiet = now - self._told_at < KEEPALIVE_SECONDS
        if is_quiet and not (changed or rows or self._has_heard):
            return
        self._has_heard, self._told_at = False, now
        message = _message(
            "change", **{**self.running_turns(), "turns": changed}, **rows
        )
        for watcher in self._watching:
            watcher.enqueue(message)

    def _drop_silent_processes(self) -> None:
        oldest = time.monotonic() - PROCESS_TIMEOUT_SECONDS
        for process, heard in list(self._heard.items()):
            if heard.at < oldest:
                del self._heard[process]
                self._changed.update(dict.fromkeys(heard.turns))
                self._has_heard = True

    async def _changed_rows(self) -> dict[str, Any]:
        """Return the rows that differ from those last sent."""
        now = time.monotonic()
        since = now - self._read_at
        is_news = (
            self._news_at > self._read_at or now < self._news_at + LATE_ROWS_SECONDS
        )
        if not self._watching or since < (
            ROWS_INTERVAL_SECONDS if is_news else MAX_ROWS_AGE_SECONDS
        ):
            return {}
        self._read_at = now
        try:
            rows = await database_executor.run(recent_activity.load_latest)
        except DatabaseDown:
            return {}
        before, self._rows = self._rows, rows
        return {name: told for name, told in rows.items() if before.get(name) != told}


def _local_state() -> ProcessState:
    """Return the turns that run in this process, before any report."""
    turns = [
        running_turn_serializer.serialize_turn(turn)
        for turn in ACTIVE_TURNS.list_turns()
    ]
    return ProcessState({told["id"]: told for told in turns}, ACTIVE_TURNS.count())


def _message(kind: str, **more: Any) -> str:
    return orjson.dumps({"type": kind, **more}).decode()


_broadcasters: list[LiveBroadcaster] = []
"""One for each server of this process; only tests have several."""


def start() -> LiveBroadcaster:
    """Start the broadcaster of a server in this process."""
    watchers = LiveBroadcaster(LivePublisher())
    watchers.start()
    _broadcasters.append(watchers)
    return watchers


async def stop(watchers: LiveBroadcaster) -> None:
    """Stop the broadcaster."""
    _broadcasters.remove(watchers)
    await watchers.stop()


def poll() -> dict[str, Any]:
    """Return the running turns, also in a process without a server."""
    watchers = current()
    return (
        LiveBroadcaster(LivePublisher()).running_turns()
        if watchers is None
        else watchers.poll()
    )


def current() -> LiveBroadcaster | None:
    """Return the broadcaster of this process; None without a server."""
    return _broadcasters[-1] if _broadcasters else None
