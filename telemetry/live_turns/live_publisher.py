"""Publishes this process's activity to viewers: one publisher per event loop of agents.

Processes communicate through Channels. A process with viewers announces itself to all
every few seconds; the others then send their changes, in one message every quarter of a
second, until announcements stop. Without viewers nothing is read or sent. Without a
broker a process publishes only to viewers of its own.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import orjson
from channels.layers import get_channel_layer  # type: ignore[import-untyped]

from core.runtime.backoff import Backoff
from telemetry.live_turns import running_turn_serializer
from telemetry.live_turns.active_turns import ACTIVE_TURNS, ActiveTurns

FLUSH_SECONDS = 0.25
ANNOUNCE_SECONDS = 3.0
"""Interval of announcements, and so the minimum interval of updates."""
WATCH_SECONDS = 10.0
"""How long an announcement is valid."""
REJOIN_SECONDS = 10.0
"""Interval at which a process rejoins its group; the layer's memberships expire."""
BROKER_TIMEOUT_SECONDS = 2.0
"""Timeout of broker calls."""
MIN_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 5.0
PUBLISHERS_GROUP = "live.publishers"
WATCHERS_GROUP = "live.watchers"

logger = logging.getLogger(__name__)

TurnJson = dict[str, Any]
"""A turn in the form of `serialize_turn`."""


@dataclass(frozen=True, slots=True)
class ProcessUpdate:
    process: str
    is_snapshot: bool
    """Whether `turns` lists all turns, and not only changed ones."""
    turns: dict[str, TurnJson | None]
    """None for a turn that is no longer listed."""
    count: int
    """Number of running turns, including those that are not listed."""
    has_ended_turns: bool
    """Whether a turn has ended, so that its record may be read."""
    has_changed_tasks: bool
    """Whether a task has changed its state."""


UpdateHandler = Callable[[ProcessUpdate], None]


class ChannelLayer(Protocol):
    """The methods of a channel layer that are used here."""

    async def group_add(self, group: str, channel: str) -> None: ...
    async def group_discard(self, group: str, channel: str) -> None: ...
    async def group_send(self, group: str, message: dict[str, Any]) -> None: ...
    async def receive(self, channel: str) -> dict[str, Any]: ...


class LivePublisher:
    """Publishes the running turns of one process."""

    def __init__(
        self,
        active_turns: ActiveTurns = ACTIVE_TURNS,
        *,
        layer: Callable[[], ChannelLayer | None] = get_channel_layer,
    ) -> None:
        self._active_turns = active_turns
        self._get_layer = layer
        self._layer: ChannelLayer | None = None
        self._process = uuid.uuid4().hex
        self._channel = f"live.{self._process}"
        self._handlers: list[UpdateHandler] = []
        self._sent_turns: dict[str, TurnJson] = {}
        self._needs_snapshot = True
        """Whether the next update must be complete, for a new viewer."""
        self._is_due = False
        """Whether to send an update even without changes, as a sign of life."""
        self._others_until = -1.0
        """Until when another process has viewers."""
        self._is_unknown = True
        """Whether other processes do not know yet that this one has viewers."""
        self._is_joined = False
        """Whether this process receives updates of other processes."""
        self._is_down = False
        self._wake_event = asyncio.Event()
        self._announce_event = asyncio.Event()

    async def run(self) -> None:
        """Publish until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for part in (self._publish_while_watched, self._listen, self._announce):
                    tasks.create_task(part())
        finally:
            await self._leave()

    def subscribe(self, handler: UpdateHandler) -> None:
        """Call a function with each update, of this process and of others.

        The first updates are complete.
        """
        self._handlers.append(handler)
        self._is_unknown = True
        self._mark_watched(is_new=True)
        self._announce_event.set()

    def unsubscribe(self, handler: UpdateHandler) -> None:
        self._handlers.remove(handler)
        self._announce_event.set()

    def _mark_watched(self, *, is_new: bool) -> None:
        self._active_turns.watch(WATCH_SECONDS)
        self._needs_snapshot = self._needs_snapshot or is_new
        self._is_due = True
        self._wake_event.set()

    # Publishing.

    async def _publish_while_watched(self) -> None:
        while True:
            await self._wake_event.wait()
            self._wake_event.clear()
            while self._active_turns.is_watched():
                try:
                    await self._flush()
                except Exception:
                    logger.exception("could not publish live updates")
                await asyncio.sleep(FLUSH_SECONDS)
            self._sent_turns, self._needs_snapshot = {}, True

    async def _flush(self) -> None:
        update = self._build_update()
        if update is None:
            return
        for handler in self._handlers:
            handler(update)
        if time.monotonic() < self._others_until:
            message = {"type": "live.update", "update": orjson.dumps(asdict(update))}
            if not await self._send(WATCHERS_GROUP, message):
                # A lost update is repeated for the next viewer that asks.
                self._others_until, self._needs_snapshot = -1.0, True

    def _build_update(self) -> ProcessUpdate | None:
        """Return the changes since the last update; None if no update is needed."""
        turns = {
            turn["id"]: turn
            for turn in map(
                running_turn_serializer.serialize_turn, self._active_turns.list_turns()
            )
        }
        before, self._sent_turns = self._sent_turns, turns
        changed: dict[str, TurnJson | None] = {
            key: turn for key, turn in turns.items() if before.get(key) != turn
        }
        changed |= dict.fromkeys(before.keys() - turns.keys())
        changes = self._active_turns.take_changes()
        is_snapshot, self._needs_snapshot = self._needs_snapshot, False
        is_due, self._is_due = self._is_due, False
        if not (
            is_snapshot
            or is_due
            or changed
            or changes.has_ended_turns
            or changes.has_changed_tasks
        ):
            return None
        return ProcessUpdate(
            process=self._process,
            is_snapshot=is_snapshot,
            turns={**turns} if is_snapshot else changed,
            count=self._active_turns.count(),
            has_ended_turns=changes.has_ended_turns,
            has_changed_tasks=changes.has_changed_tasks,
        )

    # Receiving.

    async def _listen(self) -> None:
        """Receive announcements and updates; wait for a broker that is unavailable."""
        backoff = Backoff(MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
        while True:
            try:
                if self._layer is None:
                    # In a thread, because it takes a tenth of a second.
                    self._layer = await asyncio.to_thread(self._get_layer)
                if self._layer is None:
                    return
                async with asyncio.timeout(BROKER_TIMEOUT_SECONDS):
                    await self._join(self._layer)
                backoff.reset()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._rejoin_periodically(self._layer))
                    tasks.create_task(self._receive(self._layer))
            except Exception as exc:  # The layer's client may raise anything.
                self._log_outage(exc)
            await asyncio.sleep(backoff.next_seconds())

    async def _join(self, layer: ChannelLayer) -> None:
        await layer.group_add(PUBLISHERS_GROUP, self._channel)
        if self._handlers:
            await layer.group_add(WATCHERS_GROUP, self._channel)
            self._is_joined = True
        if self._is_down:
            self._is_down, self._is_unknown = False, True
            self._announce_event.set()

    async def _rejoin_periodically(self, layer: ChannelLayer) -> None:
        while True:
            await asyncio.sleep(REJOIN_SECONDS)
            async with asyncio.timeout(BROKER_TIMEOUT_SECONDS):
                await self._join(layer)

    async def _receive(self, layer: ChannelLayer) -> None:
        while True:
            message = await layer.receive(self._channel)
            if message.get("type") == "live.update":
                self._deliver(message["update"])
            elif message.get("from") != self._process:
                now = time.monotonic()
                is_new = bool(message.get("is_new")) or now > self._others_until
                self._others_until = now + WATCH_SECONDS
                self._mark_watched(is_new=is_new)

    def _deliver(self, body: bytes) -> None:
        update = ProcessUpdate(**orjson.loads(body))
        if update.process != self._process:
            for handler in self._handlers:
                handler(update)

    # Announcing.

    async def _announce(self) -> None:
        """Announce the viewers of this process, as long as there are any."""
        while True:
            self._announce_event.clear()
            if self._handlers:
                # Viewers receive a regular update of this process, too.
                self._mark_watched(is_new=False)
                await self._send_announcement()
            elif self._is_joined:
                await self._stop_watching()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(
                    ANNOUNCE_SECONDS if self._handlers else None
                ):
                    await self._announce_event.wait()

    async def _send_announcement(self) -> None:
        if self._layer is None or self._is_down:
            return
        is_new, self._is_unknown = self._is_unknown, False
        message = {"type": "live.watch", "from": self._process, "is_new": is_new}
        is_sent = await self._try_call(self._join(self._layer)) and await self._send(
            PUBLISHERS_GROUP, message
        )
        self._is_unknown = self._is_unknown or not is_sent

    async def _stop_watching(self) -> None:
        self._is_joined = False
        if self._layer is not None and not self._is_down:
            await self._try_call(
                self._layer.group_discard(WATCHERS_GROUP, self._channel)
            )

    async def _send(self, group: str, message: dict[str, Any]) -> bool:
        """Send a message; return whether the broker accepted it."""
        if self._layer is None:
            return False
        return await self._try_call(self._layer.group_send(group, message))

    async def _leave(self) -> None:
        if self._layer is not None and not self._is_down:
            for group in (PUBLISHERS_GROUP, WATCHERS_GROUP):
                await self._try_call(self._layer.group_discard(group, self._channel))

    async def _try_call(self, call: Coroutine[Any, Any, None]) -> bool:
        """Run a broker call; return whether it succeeded."""
        try:
            async with asyncio.timeout(BROKER_TIMEOUT_SECONDS):
                await call
        except Exception as exc:  # The layer's client may raise anything.
            self._log_outage(exc)
            return False
        return True

    def _log_outage(self, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not self._is_down:
            self._is_down = True
            reason = str(error) or type(error).__name__
            # At startup the broker may be late, which is not worth a log line.
            level = logging.INFO if self._handlers else logging.DEBUG
            logger.log(level, "live view is waiting for the broker: %s", reason)
