"""Notices of changed overrides, through Redis."""

import time
from collections.abc import Iterator

import pytest

from config.models import OverrideVersion
from config.overrides import change_notices
from config.overrides.change_notices import ChangeNotices
from tests.providers.broker import run_broker

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]
WAIT_SECONDS = 15


@pytest.fixture
def broker(tmp_path, settings) -> Iterator[None]:
    with run_broker(tmp_path) as url:
        settings.REDIS_URL = url
        yield


@pytest.fixture
def notices() -> Iterator[ChangeNotices]:
    notices = ChangeNotices()
    yield notices
    notices.close()


def wait_for_notice(notices: ChangeNotices) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not notices.is_question_due():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def connect(notices: ChangeNotices) -> None:
    """Subscribe, and wait until nothing is new."""
    deadline = time.monotonic() + WAIT_SECONDS
    while notices.is_question_due():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_every_poll_asks_without_redis(notices, settings, tmp_path):
    settings.REDIS_URL = f"unix://{tmp_path}/none.sock"
    assert all(notices.is_question_due() for _ in range(3))
    change_notices.publish()


def test_polls_ask_after_a_change_only(broker, notices, monkeypatch):
    monkeypatch.setattr(change_notices, "ASK_SECONDS", 1000)
    connect(notices)
    assert not notices.is_question_due()
    OverrideVersion.objects.record("agents", "noticed", "saved", by="a test")
    wait_for_notice(notices)
    assert not notices.is_question_due()


def test_polls_ask_now_and_then(broker, notices, monkeypatch):
    connect(notices)
    later = time.monotonic() + change_notices.ASK_SECONDS + 1
    monkeypatch.setattr(change_notices.time, "monotonic", lambda: later)
    assert notices.is_question_due()
    assert not notices.is_question_due()


def test_lost_redis_is_noticed(broker, notices, monkeypatch):
    connect(notices)
    monkeypatch.setattr(
        notices._subscription, "get_message", lambda: (_ for _ in ()).throw(OSError())
    )
    assert all(notices.is_question_due() for _ in range(3))
