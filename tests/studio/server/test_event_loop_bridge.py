"""The event loop bridge returns results, raises errors, and times out."""

import asyncio
import threading

import pytest

from studio.server import event_loop_bridge


def test_slow_coroutine_times_out_and_is_cancelled(running):
    started, ended = threading.Event(), threading.Event()

    async def never() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(event_loop_bridge.BridgeTimeout, match="did not answer in time"):
        event_loop_bridge.run_on_loop(never(), seconds=0.2)
    if started.is_set():  # A busy loop has not even begun it.
        assert ended.wait(60)


def test_result_and_exception_are_returned(running):
    async def response(value: int) -> float:
        return 1 / value

    assert event_loop_bridge.run_on_loop(response(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        event_loop_bridge.run_on_loop(response(0))
