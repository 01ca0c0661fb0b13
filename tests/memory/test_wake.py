"""Waking a worker: free for the caller, one message for many turns, never an error."""

import threading
import time

import celery
import pytest

from memory import wake
from memory.wake import Wake


class Queue:
    """Takes messages in Celery's place."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict]] = []
        self.error: Exception | None = None
        self.tried = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def send_task(self, name: str, **options: object) -> None:
        self.gate.wait(10)
        self.tried.release()
        if self.error is not None:
            raise self.error
        self.sent.append((name, options))

    def wait(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.tried.acquire(timeout=10)


@pytest.fixture
def queue(monkeypatch):
    queue = Queue()
    monkeypatch.setattr(celery, "current_app", queue)
    return queue


def test_it_sends_one_message_that_wants_no_answer(queue):
    Wake(pause_seconds=0).soon()
    queue.wait()
    ((name, options),) = queue.sent
    assert name == "memory.jobs.work"
    assert options["ignore_result"] is True
    assert options["retry"] is False


def test_many_calls_make_one_message(queue):
    waker = Wake(pause_seconds=0)
    queue.gate.clear()
    for _ in range(100):
        waker.soon()
    queue.gate.set()
    queue.wait()
    assert len(queue.sent) <= 2


def test_a_call_during_a_message_makes_another(queue):
    waker = Wake(pause_seconds=0)
    waker.soon()
    queue.wait()
    waker.soon()
    queue.wait()
    assert len(queue.sent) == 2


def test_a_slow_broker_holds_nobody_up(queue):
    waker = Wake(pause_seconds=0)
    queue.gate.clear()
    began = time.perf_counter()
    for _ in range(1000):
        waker.soon()
    assert time.perf_counter() - began < 0.5
    queue.gate.set()


def test_a_broker_that_is_down_is_told_of_once(queue, caplog):
    waker = Wake(pause_seconds=0)
    queue.error = ConnectionError("refused")
    for _ in range(3):
        waker._wanted.set()
        waker.flush()
    (record,) = caplog.records
    assert "refused" in record.getMessage()
    queue.error = None
    waker._wanted.set()
    waker.flush()
    queue.error = ConnectionError("again")
    waker._wanted.set()
    waker.flush()
    assert len(caplog.records) == 2


def test_flush_sends_what_waits_and_nothing_twice(queue):
    waker = Wake(pause_seconds=0)
    waker._wanted.set()
    waker.flush()
    waker.flush()
    assert len(queue.sent) == 1


def test_the_process_has_one(queue):
    wake.soon()
    queue.wait()
    wake.flush()
    assert {name for name, _ in queue.sent} == {"memory.jobs.work"}
