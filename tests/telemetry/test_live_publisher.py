"""Updates between processes; each publisher here stands for a process."""

import asyncio
import uuid
from contextlib import asynccontextmanager

import pytest
from channels.layers import InMemoryChannelLayer

from core.ids import TurnId
from telemetry.live_turns import live_publisher as reporters
from telemetry.live_turns.active_turns import ActiveTurns
from telemetry.live_turns.live_publisher import LivePublisher
from tests.telemetry.test_active_turns import make_turn


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(reporters, "FLUSH_SECONDS", 0.005)
    monkeypatch.setattr(reporters, "ANNOUNCE_SECONDS", 0.02)
    monkeypatch.setattr(reporters, "MIN_BACKOFF_SECONDS", 0.01)
    # No viewer expires because this machine is busy.
    monkeypatch.setattr(reporters, "WATCH_SECONDS", 600)
    monkeypatch.setattr(reporters, "BROKER_TIMEOUT_SECONDS", 60)


@pytest.fixture
def soon_forgotten(monkeypatch):
    monkeypatch.setattr(reporters, "WATCH_SECONDS", 0.1)


class Broker:
    """A channel layer that counts messages and can be unavailable."""

    def __init__(self):
        self._layer = InMemoryChannelLayer()
        self.sent = []
        self.is_away = False

    def __getattr__(self, name):
        if self.is_away:
            raise ConnectionError("nobody there")
        return getattr(self._layer, name)

    async def group_send(self, group, message):
        if self.is_away:
            raise ConnectionError("nobody there")
        self.sent.append(message["type"])
        await self._layer.group_send(group, message)

    async def receive(self, channel):
        while True:
            if self.is_away:
                raise ConnectionError("nobody there")
            try:
                async with asyncio.timeout(0.01):
                    return await self._layer.receive(channel)
            except TimeoutError:
                pass


class Process:
    """The running turns of a process, its publisher, and the received updates."""

    def __init__(self, broker):
        self.active_turns = ActiveTurns()
        self.publisher = LivePublisher(self.active_turns, layer=lambda: broker)
        self.frames = []

    def watch(self):
        self.publisher.subscribe(self.frames.append)

    def known_turns(self):
        """Return the turns that a viewer knows after all updates."""
        by_process = {}
        for frame in self.frames:
            latest = by_process.setdefault(frame.process, {})
            if frame.is_snapshot:
                latest.clear()
            latest.update(frame.turns)
        return {
            key: turn_json
            for turns in by_process.values()
            for key, turn_json in turns.items()
            if turn_json is not None
        }


@asynccontextmanager
async def processes(broker, count):
    made = [Process(broker) for _ in range(count)]
    async with running(*made):
        yield made


@asynccontextmanager
async def running(*processes):
    tasks = [asyncio.create_task(each.publisher.run()) for each in processes]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  no event reports it
            await asyncio.sleep(0.002)


async def test_process_receives_updates_of_another():
    async with processes(Broker(), 2) as (web, worker):
        turn, later = make_turn(), make_turn()
        worker.active_turns.register(turn.turn_id, lambda: turn)
        web.watch()
        await until(lambda: str(turn.turn_id) in web.known_turns())
        worker.active_turns.register(later.turn_id, lambda: later)
        await until(lambda: str(later.turn_id) in web.known_turns())
        worker.active_turns.unregister(turn.turn_id)
        await until(lambda: str(turn.turn_id) not in web.known_turns())
        assert [frame.has_ended_turns for frame in web.frames].count(True) == 1
        assert not any(frame.has_changed_tasks for frame in web.frames)
        worker.active_turns.mark_tasks_changed()
        await until(lambda: any(frame.has_changed_tasks for frame in web.frames))


async def test_nothing_is_sent_without_watchers(soon_forgotten):
    broker = Broker()
    async with processes(broker, 2) as (web, worker):
        turn = make_turn()
        worker.active_turns.register(turn.turn_id, lambda: turn)
        web.watch()
        await until(lambda: web.known_turns())
        web.publisher.unsubscribe(web.publisher._handlers[0])
        await until(lambda: not worker.active_turns.is_watched())
        await until(lambda: not web.active_turns.is_watched())
        before, looked = len(broker.sent), []

        def look():
            looked.append(turn)
            return turn

        worker.active_turns.unregister(turn.turn_id)
        worker.active_turns.register(turn.turn_id, look)
        await asyncio.sleep(reporters.WATCH_SECONDS)
        assert len(broker.sent) == before
        assert looked == []


async def test_only_changes_and_heartbeats_are_sent():
    async with processes(Broker(), 2) as (web, worker):
        first, second = make_turn(), make_turn()
        worker.active_turns.register(first.turn_id, lambda: first)
        web.watch()
        await until(lambda: web.known_turns())
        both = {frame.process for frame in web.frames}
        worker.active_turns.register(second.turn_id, lambda: second)
        await until(lambda: len(web.known_turns()) == 2)
        last = next(frame for frame in reversed(web.frames) if frame.turns)
        assert list(last.turns) == [str(second.turn_id)]
        assert not last.is_snapshot
        before = len(web.frames)
        await until(lambda: {f.process for f in web.frames[before:]} == both)


async def test_late_watcher_receives_everything():
    async with processes(Broker(), 3) as (web, other, worker):
        turn = make_turn()
        worker.active_turns.register(turn.turn_id, lambda: turn)
        web.watch()
        await until(lambda: web.known_turns())
        other.watch()
        await until(lambda: other.known_turns())
        assert other.known_turns().keys() == {str(turn.turn_id)}


async def test_process_sees_its_own_turns_without_a_broker():
    broker = Broker()
    broker.is_away = True
    async with processes(broker, 2) as (web, worker):
        own, others = make_turn(), make_turn()
        web.active_turns.register(own.turn_id, lambda: own)
        worker.active_turns.register(others.turn_id, lambda: others)
        web.watch()
        await until(lambda: web.known_turns())
        assert web.known_turns().keys() == {str(own.turn_id)}
        broker.is_away = False
        await until(lambda: len(web.known_turns()) == 2)


async def test_lost_updates_are_sent_once_the_broker_is_back():
    broker = Broker()
    async with processes(broker, 2) as (web, worker):
        web.watch()
        await until(lambda: len({frame.process for frame in web.frames}) == 2)
        broker.is_away = True
        turn = make_turn()
        worker.active_turns.register(turn.turn_id, lambda: turn)
        await until(lambda: str(turn.turn_id) in worker.publisher._sent_turns)
        await until(lambda: web.publisher._is_down and worker.publisher._is_down)
        broker.is_away = False
        await until(lambda: web.known_turns())
        assert [*web.known_turns()] == [str(turn.turn_id)]


class Flaky:
    """A connection to the broker that can lose an update silently."""

    def __init__(self, broker):
        self._broker = broker
        self.loses = 0

    def __getattr__(self, name):
        return getattr(self._broker, name)

    async def group_send(self, group, message):
        if message["type"] == "live.update" and self.loses:
            self.loses -= 1
            raise ConnectionError("lost")
        await self._broker.group_send(group, message)


async def test_failed_update_is_sent_on_the_next_request():
    broker = Broker()
    flaky = Flaky(broker)
    web, worker = Process(broker), Process(flaky)
    async with running(web, worker):
        web.watch()
        await until(lambda: len({frame.process for frame in web.frames}) == 2)
        turn = make_turn()
        flaky.loses = 1
        worker.active_turns.register(turn.turn_id, lambda: turn)
        await until(lambda: not flaky.loses)
        await until(lambda: web.known_turns())
        assert [*web.known_turns()] == [str(turn.turn_id)]


async def test_exception_in_one_turn_does_not_stop_the_publisher(caplog):
    def broken():
        raise RuntimeError("a fault of ours")

    async with processes(Broker(), 1) as (web,):
        turn_id, turn = TurnId(uuid.uuid4()), make_turn()
        web.active_turns.register(turn_id, broken)
        web.watch()
        await until(lambda: "a fault of ours" in caplog.text)
        web.active_turns.unregister(turn_id)
        web.active_turns.register(turn.turn_id, lambda: turn)
        await until(lambda: web.known_turns())
        assert [*web.known_turns()] == [str(turn.turn_id)]
