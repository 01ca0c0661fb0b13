"""Turns that end during a database outage are charged once afterwards."""

import threading

import pytest
from django.db.utils import DataError

from database import database_executor
from database.errors import DatabaseDown
from telemetry.models import Turn
from tests.gateway.calls import stored, until
from tests.gateway.limits.test_budgets import COST, aside, ask, create_token, meter, url
from tests.gateway.openai.test_failures import without_database
from turns.budget.usage_grant import UsageGrant
from turns.lifecycle import deferred_charges, turn_transaction

__all__ = ["create_token", "url"]

pytestmark = pytest.mark.database


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(deferred_charges, "RETRY_DELAYS_SECONDS", (0.02,) * 10_000)


def ended_without_database(fake, url, secret, **more) -> None:
    """Run a turn during which the database becomes unavailable."""
    fake.hang()
    codes = []
    asking = threading.Thread(
        target=lambda: codes.append(ask(url, secret, **more).status_code)
    )
    asking.start()
    fake.wait(lambda: len(fake.requests) == 1)
    with without_database():
        fake.release()
        asking.join()
    assert codes == [503]


def test_deferred_turn_is_charged_when_database_returns(
    url, fake, user, create_token, caplog
):
    secret = create_token(user, budget="total", limit_micro_usd=9 * COST)
    ended_without_database(fake, url, secret)
    assert "(10 tokens, $1.00) later: database unavailable" in caplog.text
    until(lambda: meter(secret).micro_usd)
    assert (meter(secret).micro_usd, meter(secret).requests) == (COST, 1)
    assert aside(secret) == (0, 0, 0)
    turn = Turn.objects.get(token_id=meter(secret).subject.removeprefix("token:"))
    assert (turn.outcome, turn.cost_micro_usd) == ("error", COST)
    # The client received an error, and may have repeated the request.
    assert stored(user) == []


def test_committed_turn_is_not_charged_twice(
    url, fake, user, create_token, monkeypatch, caplog
):
    def commit_and_lose(*args, **kwargs):
        settle(*args, **kwargs)
        connection_lost.set()

    secret = create_token(user, budget="total", limit_micro_usd=9 * COST)
    connection_lost = threading.Event()
    settle, run_to_end = UsageGrant.settle, database_executor.run_to_end
    monkeypatch.setattr(UsageGrant, "settle", commit_and_lose)

    async def lose_once(function, *args, **kwargs):
        answer = await run_to_end(function, *args, **kwargs)
        if connection_lost.is_set():
            connection_lost.clear()
            raise DatabaseDown
        return answer

    monkeypatch.setattr(database_executor, "run_to_end", lose_once)
    assert ask(url, secret).status_code == 503
    until(lambda: "already charged turn" in caplog.text)
    assert (meter(secret).micro_usd, meter(secret).requests) == (COST, 1)
    assert aside(secret) == (0, 0, 0)


def break_a_constraint(record, settings) -> None:
    Turn(pk=record.turn_id).save()


def send_no_text(record, settings) -> None:
    raise DataError("not text")


@pytest.mark.parametrize("refuse", [break_a_constraint, send_no_text])
def test_turn_is_charged_when_its_record_cannot_be_stored(
    url, fake, user, create_token, monkeypatch, caplog, refuse
):
    secret = create_token(user, budget="total", limit_micro_usd=9 * COST)
    monkeypatch.setattr(turn_transaction.turn_store, "insert", refuse)
    ended_without_database(fake, url, secret)
    until(lambda: "charged turn" in caplog.text)
    assert (meter(secret).micro_usd, meter(secret).requests) == (COST, 1)
    assert aside(secret) == (0, 0, 0)
    assert "could not store the record" in caplog.text


def test_uncharged_incognito_turn_is_logged(url, fake, user, create_token, caplog):
    secret = create_token(user)
    ended_without_database(fake, url, secret, metadata={"memory": "incognito"})
    assert "(10 tokens, $1.00): database unavailable" in caplog.text


def test_deferred_charge_gives_up_after_all_retries(
    url, fake, user, create_token, monkeypatch, caplog
):
    monkeypatch.setattr(deferred_charges, "RETRY_DELAYS_SECONDS", ())
    ended_without_database(fake, url, create_token(user))
    assert until(lambda: "database still unavailable" in caplog.text)
