"""Heartbeats distinguish hanging children from starting and busy ones."""

import asyncio
import tempfile
from collections.abc import Iterator

import pytest

from processes.supervision.heartbeat import HeartbeatCheck, HeartbeatSender


@pytest.fixture
def descriptor() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


def misses(check: HeartbeatCheck, times: int = 1) -> list[bool]:
    """Return whether each of the next checks found a missed heartbeat."""
    return [bool(asyncio.run(check.find_problem(None))) for _ in range(times)]


def test_heartbeats_are_missed_only_after_the_first(descriptor: int) -> None:
    check, sender = HeartbeatCheck(descriptor, 2), HeartbeatSender(descriptor, 2)
    assert misses(check, 3) == [False, False, False]
    sender.beat()
    assert misses(check, 3) == [False, True, True]
    sender.beat()
    assert misses(check) == [False]


def test_restarted_process_starts_without_misses(descriptor: int) -> None:
    first = HeartbeatCheck(descriptor, 1)
    HeartbeatSender(descriptor, 1).beat()
    assert misses(first, 2) == [False, True]
    second = HeartbeatCheck(descriptor, 1)
    assert misses(second, 2) == [False, False]
    # The new process has sent as many heartbeats as the old one.
    HeartbeatSender(descriptor, 1).beat()
    assert misses(second, 2) == [False, True]


def test_heartbeats_are_counted_per_process(descriptor: int) -> None:
    checks = [HeartbeatCheck(descriptor, position) for position in (1, 2)]
    first, second = HeartbeatSender(descriptor, 1), HeartbeatSender(descriptor, 2)
    first.beat()
    second.beat()
    assert [misses(check) for check in checks] == [[False], [False]]
    second.beat()
    assert [misses(check) for check in checks] == [[True], [False]]


def test_heartbeat_never_writes_the_empty_value(descriptor: int) -> None:
    check, sender = HeartbeatCheck(descriptor, 1), HeartbeatSender(descriptor, 1)
    for _ in range(300):
        sender.beat()
        assert misses(check) == [False]
    assert misses(check) == [True]
