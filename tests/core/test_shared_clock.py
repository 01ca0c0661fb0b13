"""The shared time follows another clock, not this machine's, nor a slow answer."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from core.runtime import shared_clock

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_clock, "_latest", None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """This process's monotonic clock, as a list of one number."""
    monotonic = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: monotonic[0])
    return monotonic


def compare(at: float, *, ahead: float = 0.0, seconds: float = 0.0) -> None:
    """Ask a clock that shows noon at 1000, in so many seconds."""
    shared = NOON.timestamp() + at - 1000 + ahead
    shared_clock.compare(shared, at - seconds / 2, at + seconds / 2)


def seconds_after_noon() -> float:
    return (shared_clock.now() - NOON).total_seconds()


def test_time_is_the_machines_without_a_comparison():
    assert abs(shared_clock.skew_seconds()) < 1
    assert shared_clock.now().tzinfo is UTC


def test_time_is_the_shared_clocks_whatever_the_machine_shows(clock, monkeypatch):
    compare(1000)
    clock[0] = 1030
    assert seconds_after_noon() == 30
    monkeypatch.setattr(time, "time", lambda: NOON.timestamp() + 30 + 45)
    assert shared_clock.skew_seconds() == -45
    assert seconds_after_noon() == 30


@pytest.mark.parametrize(
    ("answer", "ahead"),
    [
        ({"at": 1001, "ahead": 0.4, "seconds": 1.0}, 0.0),
        ({"at": 1001, "ahead": 0.004, "seconds": 0.009}, 0.004),
        ({"at": 1900, "ahead": 0.4, "seconds": 1.0}, 0.4),
        ({"at": 1001, "ahead": 45, "seconds": 1.0}, 45),
    ],
    ids=["slow", "fast", "slow after long", "slow of a clock that was set"],
)
def test_slow_answers_count_only_if_they_know_more(clock, answer, ahead):
    compare(1000, seconds=0.01)
    compare(**answer)
    clock[0] = 2000
    assert seconds_after_noon() == pytest.approx(1000 + ahead)
