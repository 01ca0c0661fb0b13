"""Heartbeats distinguish hanging children from starting and busy ones."""

import tempfile
from collections.abc import Iterator

import pytest

from processes.supervision.heartbeat import HeartbeatSender, HeartbeatTable


@pytest.fixture
def descriptor() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


def test_heartbeats_are_missed_only_after_the_first(descriptor: int) -> None:
    table, sender = HeartbeatTable(descriptor), HeartbeatSender(descriptor, 2)
    assert [table.count_misses(2) for _ in range(3)] == [0, 0, 0]
    sender.beat()
    assert [table.count_misses(2) for _ in range(3)] == [0, 1, 2]
    sender.beat()
    assert table.count_misses(2) == 0
    table.reset(2)
    assert [table.count_misses(2) for _ in range(3)] == [0, 0, 0]


def test_restarted_process_starts_without_misses(descriptor: int) -> None:
    table = HeartbeatTable(descriptor)
    HeartbeatSender(descriptor, 1).beat()
    assert [table.count_misses(1) for _ in range(3)] == [0, 1, 2]
    table.reset(1)
    # The new process has sent as many heartbeats as the old one.
    HeartbeatSender(descriptor, 1).beat()
    assert [table.count_misses(1) for _ in range(2)] == [0, 1]


def test_heartbeats_are_counted_per_process(descriptor: int) -> None:
    table = HeartbeatTable(descriptor)
    first, second = HeartbeatSender(descriptor, 1), HeartbeatSender(descriptor, 2)
    first.beat()
    second.beat()
    table.count_misses(1), table.count_misses(2)
    second.beat()
    assert (table.count_misses(1), table.count_misses(2)) == (1, 0)


def test_heartbeat_never_writes_the_empty_value(descriptor: int) -> None:
    table, sender = HeartbeatTable(descriptor), HeartbeatSender(descriptor, 1)
    for _ in range(600):
        sender.beat()
        assert table.count_misses(1) == 0
    assert table.count_misses(1) == 1
