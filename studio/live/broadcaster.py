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
"""The interval of messages to watchers while nothing changes."""
PROCESS_TIMEOUT_SECONDS = 10.0
"""A process that has not reported for this long is dropped."""
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

    def __init__(self, broadcaster: "LiveBroadcaster") -> None:
        self._broadcaster = broadcaster
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
                yield await self._broadcaster.snapshot_message()
            else:
                yield await self._queue.get()


class LiveBroadcaster:
    """All watchers of this process, and the state that they see."""

    def __init__(self, publisher: LivePublisher) -> None:
        self._publisher = publisher
        self._watchers: list[LiveWatcher] = []
        self._processes: dict[str, ProcessState] = {}
        self._changed_turns: dict[str, TurnJson | None] = {}
        self._has_new_reports = False
        self._signalled_at = -1.0
        self._read_at = -1.0
        self._sent_at = -1.0
        self._rows: dict[str, Any] = {}
        """The rows as last sent."""
        self._polled_until = -1.0
        self._has_work = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start, on the event loop of the server."""
        self._loop = asyncio.get_running_loop()
        for coroutine in (self._publisher.run(), self._run()):
            self._tasks.append(asyncio.create_task(coroutine))

    async def stop(self) -> None:
        """Stop; watchers receive no further messages."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @contextlib.contextmanager
    def add_watcher(self) -> Iterator[LiveWatcher]:
        watcher = LiveWatcher(self)
        self._watchers.append(watcher)
        self._has_work.set()
        try:
            yield watcher
        finally:
            self._watchers.remove(watcher)

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
        processes = list(self._processes.values()) or [_local_state()]
        turns = [turn for each in processes for turn in list(each.turns.values())]
        return {
            "turns": sorted(turns, key=lambda turn: str(turn["started_at"])),
            "count": sum(each.count for each in processes),
            "processes": len(processes),
        }

    def _mark_polled(self) -> None:
        self._polled_until = time.monotonic() + POLL_KEEP_SECONDS
        self._has_work.set()

    # These run on the event loop.

    def _has_watchers(self) -> bool:
        return bool(self._watchers) or time.monotonic() < self._polled_until

    async def _run(self) -> None:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            if not self._has_watchers():
                continue
            self._publisher.subscribe(self._apply_update)
            try:
                while self._has_watchers():
                    await self._broadcast()
                    await asyncio.sleep(FLUSH_SECONDS)
            finally:
                self._publisher.unsubscribe(self._apply_update)
                self._processes, self._changed_turns = {}, {}

    def _apply_update(self, update: ProcessUpdate) -> None:
        process = self._processes.setdefault(update.process, ProcessState())
        if update.is_snapshot:
            removed = process.turns.keys() - update.turns.keys()
            self._changed_turns.update(dict.fromkeys(removed))
            process.turns.clear()
        for turn_id, turn in update.turns.items():
            if turn is None:
                process.turns.pop(turn_id, None)
            else:
                process.turns[turn_id] = turn
        self._changed_turns.update(update.turns)
        self._has_new_reports = self._has_new_reports or process.count != update.count
        process.count, process.at = update.count, time.monotonic()
        if update.has_ended_turns or update.has_changed_tasks:
            self._signalled_at = process.at

    async def _broadcast(self) -> None:
        """Send the changes to all watchers, if there are any."""
        self._drop_silent_processes()
        rows = await self._changed_rows()
        turns, self._changed_turns = self._changed_turns, {}
        now = time.monotonic()
        is_idle = now - self._sent_at < KEEPALIVE_SECONDS
        if is_idle and not (turns or rows or self._has_new_reports):
            return
        self._has_new_reports, self._sent_at = False, now
        message = _message("change", **{**self.running_turns(), "turns": turns}, **rows)
        for watcher in self._watchers:
            watcher.enqueue(message)

    def _drop_silent_processes(self) -> None:
        oldest = time.monotonic() - PROCESS_TIMEOUT_SECONDS
        for name, process in list(self._processes.items()):
            if process.at < oldest:
                del self._processes[name]
                self._changed_turns.update(dict.fromkeys(process.turns))
                self._has_new_reports = True

    async def _changed_rows(self) -> dict[str, Any]:
        """Return the rows that differ from those last sent."""
        now = time.monotonic()
        since = now - self._read_at
        is_signalled = (
            self._signalled_at > self._read_at
            or now < self._signalled_at + LATE_ROWS_SECONDS
        )
        if not self._watchers or since < (
            ROWS_INTERVAL_SECONDS if is_signalled else MAX_ROWS_AGE_SECONDS
        ):
            return {}
        self._read_at = now
        try:
            rows = await database_executor.run(recent_activity.load_latest)
        except DatabaseDown:
            return {}
        sent, self._rows = self._rows, rows
        return {name: each for name, each in rows.items() if sent.get(name) != each}


def _local_state() -> ProcessState:
    """Return the turns that run in this process, before any report."""
    turns = [
        running_turn_serializer.serialize_turn(turn)
        for turn in ACTIVE_TURNS.list_turns()
    ]
    return ProcessState({turn["id"]: turn for turn in turns}, ACTIVE_TURNS.count())


def _message(kind: str, **fields: Any) -> str:
    return orjson.dumps({"type": kind, **fields}).decode()


_broadcasters: list[LiveBroadcaster] = []
"""One for each server of this process; only tests have several."""


def start() -> LiveBroadcaster:
    """Start the broadcaster of a server in this process."""
    broadcaster = LiveBroadcaster(LivePublisher())
    broadcaster.start()
    _broadcasters.append(broadcaster)
    return broadcaster


async def stop(broadcaster: LiveBroadcaster) -> None:
    _broadcasters.remove(broadcaster)
    await broadcaster.stop()


def poll() -> dict[str, Any]:
    """Return the running turns, also in a process without a server."""
    broadcaster = current()
    return (
        LiveBroadcaster(LivePublisher()).running_turns()
        if broadcaster is None
        else broadcaster.poll()
    )


def current() -> LiveBroadcaster | None:
    """Return the broadcaster of this process; None without a server."""
    return _broadcasters[-1] if _broadcasters else None
