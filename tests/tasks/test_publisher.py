"""Permits: no wait for the caller, one message for many tasks, no errors."""

import logging
import threading
import time

import pytest
from kombu import Exchange

from coulisse_site.celery import app
from tasks.queue import publisher, task_kinds
from tasks.queue.publisher import Publisher

TIMEOUT_SECONDS = 60


class Queue:
    """A queue that replaces the broker."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.error: Exception | None = None
        self.tried = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def send(self, kind: str) -> None:
        self.gate.wait(TIMEOUT_SECONDS)
        try:
            if self.error is not None:
                raise self.error
            self.sent.append(kind)
        finally:
            self.tried.release()

    def wait(self) -> None:
        assert self.tried.acquire(timeout=TIMEOUT_SECONDS)


@pytest.fixture
def queue():
    return Queue()


@pytest.fixture
def permits(queue):
    return Publisher(queue.send)


def records(caplog) -> list[logging.LogRecord]:
    """Return the log records of the publisher."""
    return [each for each in caplog.records if each.name == publisher.__name__]


def test_permit_names_the_celery_task_and_queue_of_its_kind(monkeypatch):
    sent = []
    monkeypatch.setattr(
        app, "send_task", lambda name, **given: sent.append((name, given))
    )
    publisher.send_permit("judge")
    ((name, options),) = sent
    assert (name, options["queue"]) == ("tasks.run_judge", "judges")
    assert (options["ignore_result"], options["retry"]) == (True, False)


def test_every_kind_has_a_declared_queue_and_celery_task():
    app.loader.import_default_modules()
    queues = {queue.name: queue for queue in app.conf.task_queues}
    for name in task_kinds.names():
        kind = task_kinds.get(name)
        assert kind.celery_name in app.tasks
        # Otherwise a message would reach the workers of other queues.
        assert queues[kind.queue].exchange == Exchange(kind.queue)
        assert queues[kind.queue].routing_key == kind.queue


def test_permit_is_sent_soon(queue, permits):
    permits.notify("agent")
    queue.wait()
    assert queue.sent == ["agent"]


def test_delayed_permit_is_sent_at_its_time(queue, permits):
    began = time.monotonic()
    permits.notify("agent", 0.2)
    permits.notify("judge", 0.1)
    queue.wait()
    queue.wait()
    assert queue.sent == ["judge", "agent"]
    assert time.monotonic() - began >= 0.2


def test_many_calls_send_one_permit(queue, permits):
    queue.gate.clear()
    for _ in range(100):
        permits.notify("agent")
    queue.gate.set()
    queue.wait()
    assert len(queue.sent) <= 2


def test_turns_that_end_together_share_a_permit(queue, permits):
    permits.notify("extraction", interval_seconds=0.5)
    queue.wait()
    for _ in range(9):
        permits.notify("extraction", interval_seconds=0.5)
    permits.notify("agent")
    queue.wait()
    assert queue.sent == ["extraction", "agent"]
    queue.wait()
    assert queue.sent == ["extraction", "agent", "extraction"]


def test_slow_broker_does_not_block_callers(queue, permits):
    queue.gate.clear()
    began = time.perf_counter()
    for _ in range(1000):
        permits.notify("agent")
    assert time.perf_counter() - began < TIMEOUT_SECONDS / 2
    queue.gate.set()


def test_unavailable_broker_is_logged_once(queue, permits, caplog):
    queue.error = ConnectionError("refused")
    for _ in range(3):
        permits.notify("agent")
        queue.wait()
    queue.error = None
    permits.notify("agent")
    queue.wait()
    (record,) = records(caplog)
    assert "refused" in record.getMessage()
    queue.error = ConnectionError("again")
    permits.notify("agent")
    queue.wait()
    permits.flush()
    assert len(records(caplog)) == 2


def test_flush_sends_what_is_scheduled(queue, permits):
    permits._thread = threading.current_thread()  # It never sends.
    permits.notify("agent")
    permits.flush()
    permits.flush()
    assert queue.sent == ["agent"]
