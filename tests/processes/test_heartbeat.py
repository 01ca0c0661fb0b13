"""A child that hangs is told from one that starts and one that is busy."""

import tempfile
from collections.abc import Iterator

import pytest

from processes.supervision.heartbeat import HeartbeatSender, HeartbeatTable


@pytest.fixture
def descriptor() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


def test_heartbeats_are_missed_only_after_the_first(descriptor: int) -> None:
    board, pulse = HeartbeatTable(descriptor), HeartbeatSender(descriptor, 2)
    assert [board.count_misses(2) for _ in range(3)] == [0, 0, 0]
    pulse.beat()
    assert [board.count_misses(2) for _ in range(3)] == [0, 1, 2]
    pulse.beat()
    assert board.count_misses(2) == 0
    board.reset(2)
    assert [board.count_misses(2) for _ in range(3)] == [0, 0, 0]


def test_restarted_process_starts_without_misses(descriptor: int) -> None:
    board = HeartbeatTable(descriptor)
    HeartbeatSender(descriptor, 1).beat()
    assert [board.count_misses(1) for _ in range(3)] == [0, 1, 2]
    board.reset(1)
    # Nobody looked until it has beaten as often as the other had.
    HeartbeatSender(descriptor, 1).beat()
    assert [board.count_misses(1) for _ in range(2)] == [0, 1]


def test_heartbeats_are_counted_per_process(descriptor: int) -> None:
    board = HeartbeatTable(descriptor)
    first, second = HeartbeatSender(descriptor, 1), HeartbeatSender(descriptor, 2)
    first.beat()
    second.beat()
    board.count_misses(1), board.count_misses(2)
    second.beat()
    assert (board.count_misses(1), board.count_misses(2)) == (1, 0)


def test_heartbeat_never_writes_the_empty_value(descriptor: int) -> None:
    board, pulse = HeartbeatTable(descriptor), HeartbeatSender(descriptor, 1)
    for _ in range(600):
        pulse.beat()
        assert board.count_misses(1) == 0
    assert board.count_misses(1) == 1
