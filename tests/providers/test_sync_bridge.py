"""Calls from synchronous code: one event loop per process, fork-safe."""

import asyncio
import gc
import os
import threading
import time

import pytest

from providers import client, sync_bridge
from testing.scripted_provider import FakeProvider
from tests.providers.conftest import collect_events


@pytest.fixture(autouse=True)
def _closed():
    yield
    sync_bridge.close()


async def loop_and_thread() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    return asyncio.get_running_loop(), threading.current_thread()


def test_run_sync_returns_the_coroutines_result():
    assert sync_bridge.run_sync(asyncio.sleep(0, "done"), timeout_seconds=60) == "done"


def test_run_sync_raises_the_coroutines_error():
    async def fail() -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        sync_bridge.run_sync(fail(), timeout_seconds=60)


def test_all_calls_of_a_process_share_a_loop():
    first = sync_bridge.run_sync(loop_and_thread(), timeout_seconds=60)
    found: list = []
    other = threading.Thread(
        target=lambda: found.append(
            sync_bridge.run_sync(loop_and_thread(), timeout_seconds=60)
        )
    )
    other.start()
    other.join()
    assert found == [first]
    assert first[1] is not threading.main_thread()
    assert first[1].daemon


def test_coroutine_is_cancelled_at_the_timeout():
    ended = threading.Event()

    async def linger() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        sync_bridge.run_sync(linger(), timeout_seconds=0.01)
    assert ended.is_set()


def test_uncancellable_coroutine_is_abandoned(monkeypatch):
    monkeypatch.setattr(sync_bridge, "CLOSE_SECONDS", 0.05)

    async def deaf() -> None:
        for _ in range(3):
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue

    with pytest.raises(TimeoutError):
        sync_bridge.run_sync(deaf(), timeout_seconds=0.01)


def test_interrupted_wait_cancels_its_call(monkeypatch):
    entered, ended = threading.Event(), threading.Event()

    async def linger() -> None:
        try:
            entered.set()
            await asyncio.sleep(60)
        finally:
            ended.set()

    def interrupted(future, timeout=None):
        entered.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sync_bridge.run_sync(linger(), timeout_seconds=60)
    monkeypatch.undo()
    assert ended.wait(60)


async def test_run_sync_refuses_to_block_an_event_loop():
    with pytest.raises(RuntimeError, match="await the coroutine"):
        sync_bridge.run_sync(asyncio.sleep(0), timeout_seconds=60)


def test_connections_are_kept_between_calls():
    async def call() -> int:
        return len(await collect_events(fake.provider()))

    with FakeProvider() as fake:
        for _ in range(3):
            assert sync_bridge.run_sync(call(), timeout_seconds=60)
        assert fake.connections == 1
        sync_bridge.close()
        assert sync_bridge.run_sync(call(), timeout_seconds=60)
        assert fake.connections == 2
        sync_bridge.close()


def test_close_ends_the_loop_and_its_calls():
    loop, thread = sync_bridge.run_sync(loop_and_thread(), timeout_seconds=60)
    task = asyncio.run_coroutine_threadsafe(asyncio.sleep(60), loop)
    sync_bridge.close()
    assert loop.is_closed()
    assert not thread.is_alive()
    assert task.cancelled()
    assert loop not in client.loops()
    sync_bridge.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_process_has_its_own_loop():
    loop, _ = sync_bridge.run_sync(loop_and_thread(), timeout_seconds=60)
    child = os.fork()
    if child == 0:
        try:
            other, _ = sync_bridge.run_sync(loop_and_thread(), timeout_seconds=60)
            gc.collect()
            sync_bridge.close()
            os._exit(0 if other is not loop else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # The parent's still wakes up.
    started = time.monotonic()
    assert sync_bridge.run_sync(loop_and_thread(), timeout_seconds=60)[0] is loop
    assert time.monotonic() - started < 20
