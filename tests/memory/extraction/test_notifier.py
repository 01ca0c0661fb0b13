"""Waking a worker: no wait for the caller, one message for many turns, no errors."""

import logging
import threading
import time

import celery
import pytest

from core.runtime.notifier import Notifier
from memory.extraction import notifier

TIMEOUT_SECONDS = 60


class Queue:
    """A queue that replaces the broker."""

    def __init__(self) -> None:
        self.sent = 0
        self.error: Exception | None = None
        self.tried = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def send(self) -> None:
        self.gate.wait(TIMEOUT_SECONDS)
        try:
            if self.error is not None:
                raise self.error
            self.sent += 1
        finally:
            self.tried.release()

    def wait(self) -> None:
        assert self.tried.acquire(timeout=TIMEOUT_SECONDS)


@pytest.fixture
def queue():
    return Queue()


def notifier_records(caplog) -> list[logging.LogRecord]:
    """Return the log records of the notifier."""
    return [each for each in caplog.records if each.name == "core.runtime.notifier"]


def test_notification_names_the_task_and_ignores_results(monkeypatch):
    sent = []

    class App:
        def send_task(self, name: str, **options: object) -> None:
            sent.append((name, options))

    monkeypatch.setattr(celery, "current_app", App())
    notifier.send_message()
    name, options = sent[0]
    assert name == "memory.tasks.extract_facts"
    assert (options["ignore_result"], options["retry"]) == (True, False)


def test_notification_is_sent_soon(queue):
    Notifier(queue.send, pause_seconds=0, delayed_work="fact extraction").notify()
    queue.wait()
    assert queue.sent == 1


def test_many_calls_send_one_notification(queue):
    waker = Notifier(queue.send, pause_seconds=0, delayed_work="fact extraction")
    queue.gate.clear()
    for _ in range(100):
        waker.notify()
    queue.gate.set()
    queue.wait()
    assert queue.sent <= 2


def test_call_during_a_notification_sends_another(queue):
    waker = Notifier(queue.send, pause_seconds=0, delayed_work="fact extraction")
    waker.notify()
    queue.wait()
    waker.notify()
    queue.wait()
    assert queue.sent == 2


def test_slow_broker_does_not_block_callers(queue):
    waker = Notifier(queue.send, pause_seconds=0, delayed_work="fact extraction")
    queue.gate.clear()
    began = time.perf_counter()
    for _ in range(1000):
        waker.notify()
    assert time.perf_counter() - began < TIMEOUT_SECONDS / 2
    queue.gate.set()


def test_unavailable_broker_is_logged_once(queue, caplog):
    waker = Notifier(queue.send, pause_seconds=0, delayed_work="fact extraction")
    queue.error = ConnectionError("refused")
    for _ in range(3):
        waker._is_pending.set()
        waker.flush()
    (record,) = notifier_records(caplog)
    assert "refused" in record.getMessage()
    queue.error = None
    waker._is_pending.set()
    waker.flush()
    queue.error = ConnectionError("again")
    waker._is_pending.set()
    waker.flush()
    assert len(notifier_records(caplog)) == 2


def test_flush_sends_pending_notification_once(queue):
    waker = Notifier(queue.send, pause_seconds=0, delayed_work="fact extraction")
    waker._is_pending.set()
    waker.flush()
    waker.flush()
    assert queue.sent == 1


def test_process_has_one_notifier(queue, monkeypatch):
    monkeypatch.setattr(
        notifier,
        "_notifier",
        Notifier(queue.send, pause_seconds=0, delayed_work="fact extraction"),
    )
    notifier.notify()
    queue.wait()
    notifier.flush()
    assert queue.sent == 1
