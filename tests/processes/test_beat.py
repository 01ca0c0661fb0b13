"""The loop of beat ends between two ticks."""

import os
import signal
import threading

import pytest

from processes import beat


class Scheduler:
    """Sends a signal within its second tick."""

    def __init__(self, number: signal.Signals, pause: float) -> None:
        self.number, self.pause = number, pause
        self.events: list[str] = []

    def tick(self) -> float:
        self.events.append("begins")
        if len(self.events) > 2:
            os.kill(os.getpid(), self.number)
        self.events.append("ends")
        return self.pause

    def close(self) -> None:
        self.events.append("closed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("pause", [-1.0, 0.0])
def test_signal_ends_loop_after_the_tick(number, pause):
    before = signal.getsignal(number)
    scheduler = Scheduler(number, pause)
    beat.run_scheduler(scheduler)
    assert scheduler.events == ["begins", "ends"] * 2 + ["closed"]
    assert signal.getsignal(number) is before


def test_signal_ends_the_pause_at_once():
    scheduler = Scheduler(signal.SIGTERM, 3600.0)
    send = threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGTERM])
    scheduler.tick = lambda: send.start() or 3600.0
    beat.run_scheduler(scheduler)
    assert scheduler.events == ["closed"]


def test_failed_tick_closes_the_scheduler():
    scheduler = Scheduler(signal.SIGTERM, 0.0)
    scheduler.tick = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        beat.run_scheduler(scheduler)
    assert scheduler.events == ["closed"]
