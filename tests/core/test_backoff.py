"""Exponential backoff."""

from core.runtime.backoff import Backoff, exponential_seconds, jittered_seconds


def test_pauses_double_up_to_the_maximum() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next_seconds() for _ in range(4)] == [0.5, 1.0, 2.0, 3.0]
    backoff.reset()
    assert backoff.next_seconds() == 0.5


def test_many_failures_do_not_overflow() -> None:
    assert exponential_seconds(10**6, minimum=1, maximum=60, factor=4) == 60


def test_jitter_stays_between_half_and_all() -> None:
    pauses = {jittered_seconds(2, minimum=2, maximum=600, factor=4) for _ in range(50)}
    assert 4 <= min(pauses) < max(pauses) <= 8


def test_retry_after_is_the_minimum() -> None:
    assert jittered_seconds(1, minimum=2, maximum=600, at_least=900) == 900
