"""Reservations: settled once, whatever happens to their process or their database."""

import threading
import time
import uuid
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from access.errors import LimitReached
from access.limits import gone_processes, time_windows
from access.limits.usage_counters import Charge, CounterKey, Reservation
from access.limits.usage_limits import ActiveLimit, LimitRule, Unit
from access.models import UsageCounter, UsageReservation
from database.models import RunningProcess
from database.running_processes import STATE
from turns.budget import usage_grant
from turns.budget.usage_grant import LimitedRequest

pytestmark = pytest.mark.database

postgresql_only = pytest.mark.skipif(
    "connection.vendor != 'postgresql'", reason="locks single rows"
)
NOW = int(time.time())
CHARGE = Charge(40, 4, is_priced=True)


@pytest.fixture
def agent(database: None) -> str:
    return f"agent:{uuid.uuid4().hex}"


def hour(subject: str) -> CounterKey:
    return CounterKey(subject, time_windows.window_at(time_windows.HOUR, NOW))


def limit(subject: str, unit: Unit, maximum: int) -> ActiveLimit:
    return ActiveLimit(hour(subject), LimitRule(unit, 3600, maximum, "limit"))


def request(*limits: ActiveLimit, tokens: int = 100, micro_usd: int = 10):
    return LimitedRequest(limits, None, tokens, micro_usd, NOW)


def reserve(*limits: ActiveLimit, tokens: int = 100, micro_usd: int = 10):
    asked = request(*limits, tokens=tokens, micro_usd=micro_usd)
    used = asked.reserve()
    assert used is not None
    return asked.reservation(used)


def settle(reservation: Reservation, *keys: CounterKey) -> None:
    UsageReservation.objects.settle(keys, reservation, CHARGE, now=NOW)


def counted(subject: str) -> tuple[int, ...]:
    """Return the requests, tokens and running turns of the counter."""
    [values] = UsageCounter.objects.read([hour(subject)], now=NOW).values()
    return values.requests, values.tokens, values.turns_reserved, values.tokens_reserved


def rows() -> set[uuid.UUID]:
    return set(UsageReservation.objects.values_list("id", flat=True))


def test_reservation_is_a_row_until_it_is_settled(agent):
    reservation = reserve(limit(agent, "requests", 9))
    assert counted(agent) == (1, 0, 1, 100)
    row = UsageReservation.objects.get(pk=reservation.id)
    assert [update.key for update in row.updates] == [hour(agent)]
    assert (row.tokens_reserved, row.micro_usd_reserved) == (100, 10)
    assert row.settled_at is None
    settle(reservation)
    assert counted(agent) == (1, 40, 0, 0)
    assert reservation.id not in rows()


def test_released_reservation_leaves_no_trace(agent):
    reservation = reserve(limit(agent, "requests", 9))
    UsageReservation.objects.release(reservation, now=NOW)
    assert counted(agent) == (0, 0, 0, 0)
    assert reservation.id not in rows()


def test_refused_request_leaves_no_trace(agent):
    free = f"user:{uuid.uuid4().hex}"
    bounds = limit(agent, "tokens", 100), limit(free, "requests", 9)
    reserve(*bounds)
    before = rows()
    with pytest.raises(LimitReached):
        reserve(*bounds)
    assert counted(agent) == (1, 0, 1, 100)
    assert counted(free) == (1, 0, 1, 100)
    assert rows() == before


@pytest.mark.parametrize("unit", ["requests", "tokens", "micro_usd"])
@pytest.mark.parametrize(("maximum", "fits"), [(0, 0), (1, 1), (15, 15), (20, 20)])
def test_each_unit_is_refused_at_its_maximum(agent, unit, maximum, fits):
    """Reservations of one each, so the maximum is the number of those that fit."""
    for _ in range(fits):
        reserve(limit(agent, unit, maximum), tokens=1, micro_usd=1)
    with pytest.raises(LimitReached):
        reserve(limit(agent, unit, maximum), tokens=1, micro_usd=1)


def test_money_is_refused_before_it_exceeds(agent):
    reserve(limit(agent, "micro_usd", 25), micro_usd=20)
    with pytest.raises(LimitReached):
        reserve(limit(agent, "micro_usd", 25), micro_usd=6)
    reserve(limit(agent, "micro_usd", 25), micro_usd=5)


def test_charge_of_a_rolled_back_turn_is_settled_again(agent):
    reservation = reserve(limit(agent, "requests", 9))
    with transaction.atomic():
        settle(reservation)
        transaction.set_rollback(True)
    assert counted(agent) == (1, 0, 1, 100)
    settle(reservation)
    assert counted(agent) == (1, 40, 0, 0)


def test_further_counters_are_charged_a_request(agent):
    user = f"user:{uuid.uuid4().hex}"
    settle(reserve(limit(agent, "requests", 9)), hour(user), hour(agent))
    assert counted(agent) == (1, 40, 0, 0)
    assert counted(user) == (1, 40, 0, 0)


def test_turn_without_reservation_is_charged(agent):
    UsageReservation.objects.settle([hour(agent)], None, CHARGE, now=NOW)
    assert counted(agent) == (1, 40, 0, 0)


def test_charge_after_a_wrong_release_releases_nothing(agent):
    """As if the process had been taken for gone and then went on."""
    reservation = reserve(limit(agent, "requests", 9))
    UsageReservation.objects.get(pk=reservation.id).end(now=NOW)
    other = reserve(limit(agent, "requests", 9))
    settle(reservation)
    assert counted(agent) == (2, 40, 1, 100)
    settle(other)
    assert counted(agent) == (2, 80, 0, 0)


@postgresql_only
def test_charge_is_certain_when_its_turn_is_stored(agent, monkeypatch):
    """As if the process had been killed between the commit and the counters."""
    reservation = reserve(limit(agent, "requests", 9))
    with monkeypatch.context() as patch:
        patch.setattr(UsageCounter.objects, "update_at_end", _fail)
        settle(reservation)
    assert counted(agent) == (1, 0, 1, 100)
    UsageReservation.objects.get(pk=reservation.id).end(now=NOW)
    assert counted(agent) == (1, 40, 0, 0)
    assert reservation.id not in rows()


def _fail(*args, **kwargs):
    raise OSError("killed")


@postgresql_only
def test_counters_are_not_locked_while_a_turn_is_stored(agent):
    reservation = reserve(limit(agent, "requests", 9))

    def reserve_meanwhile() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '5s'")
        reserve(limit(agent, "requests", 9))
        connection.close()

    with transaction.atomic():
        settle(reservation)
        other = threading.Thread(target=reserve_meanwhile)
        other.start()
        other.join(4)
        assert not other.is_alive()
        assert counted(agent)[0] == 2


@pytest.mark.parametrize("unit", ["requests", "tokens", "micro_usd", "turns"])
def test_parallel_requests_never_exceed_a_limit(agent, unit):
    """Threads reserve, settle and release; the used and reserved sum is watched."""
    bound = ActiveLimit(hour(agent), LimitRule(unit, 3600, 10, "limit"))
    barrier, served = threading.Barrier(12), []

    def ask() -> None:
        barrier.wait()
        try:
            for _ in range(5):
                served.append(reserve(bound, tokens=1, micro_usd=1))
        except LimitReached:
            pass
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(served) == 10
    assert counted(agent) == (10, 0, 10, 10)


def hold(agent: str, *, seen: float | None = None, since: float = 0) -> uuid.UUID:
    """Reserve a turn for a process that was last seen so many seconds ago."""
    process = uuid.uuid4()
    if seen is not None:
        at = Now() - timedelta(seconds=seen)
        RunningProcess.objects.create(
            id=process, kind="web", host="a", pid=1, started_at=at, seen_at=at
        )
    reservation = reserve(running(agent, 9))
    UsageReservation.objects.filter(pk=reservation.id).update(
        process=process, reserved_at=Now() - timedelta(seconds=since)
    )
    return reservation.id


def running(subject: str, maximum: int) -> ActiveLimit:
    key = CounterKey(subject, time_windows.window_at(time_windows.EVER, NOW))
    return ActiveLimit(key, LimitRule("turns", time_windows.EVER, maximum, "limit"))


def ask(*limits: ActiveLimit) -> int:
    """Reserve a turn; return the seconds to wait if it is refused, else 0."""
    gone_processes._last.due_at = 0
    try:
        assert usage_grant.reserve(request(*limits), ())
    except LimitReached as exc:
        return exc.retry_after_seconds
    return 0


@pytest.mark.parametrize(
    ("seen", "wait"), [(0, {1}), (5, {1}), (7, {5, 6}), (11, {1, 2}), (13, {0})]
)
def test_turn_waits_for_the_processes_of_others(agent, seen, wait):
    """A process is silent after 6 s, and gone after 12."""
    hold(agent, seen=seen)
    assert ask(running(agent, 1)) in wait


def test_wait_is_short_while_one_process_lives(agent):
    hold(agent, seen=7)
    hold(agent, seen=1)
    assert ask(running(agent, 2)) == 1


@pytest.mark.parametrize(("since", "wait"), [(5, 1), (13, 0)])
def test_process_without_row_is_gone_after_its_first_seconds(agent, since, wait):
    hold(agent, since=since)
    assert ask(running(agent, 1)) == wait


def test_reservation_of_this_process_is_kept(agent):
    reservation = reserve(running(agent, 1))
    UsageReservation.objects.filter(pk=reservation.id).update(
        reserved_at=Now() - timedelta(hours=1)
    )
    assert ask(running(agent, 1)) == 1


def test_money_of_a_gone_process_is_released(agent):
    """Its request still counts."""
    spending = limit(agent, "micro_usd", 15)
    reservation = reserve(spending)
    assert ask(spending) == 1
    gone = uuid.uuid4()
    UsageReservation.objects.filter(pk=reservation.id).update(
        process=gone, reserved_at=Now() - timedelta(seconds=13)
    )
    assert ask(spending) == 0
    assert counted(agent) == (2, 0, 1, 100)


def test_nobody_seems_gone_right_after_an_outage(agent, monkeypatch):
    """Nobody could write its heartbeat meanwhile."""
    reservation = reserve(limit(agent, "requests", 9))
    UsageReservation.objects.filter(pk=reservation.id).update(
        process=uuid.uuid4(), reserved_at=Now() - timedelta(seconds=13)
    )
    monkeypatch.setattr(STATE, "_recovered_at", time.monotonic() - 5)
    assert UsageReservation.objects.end_abandoned() == 0
    monkeypatch.setattr(STATE, "_recovered_at", time.monotonic() - 13)
    assert UsageReservation.objects.end_abandoned() == 1


def test_charge_left_in_its_row_is_applied(agent):
    reservation = reserve(limit(agent, "requests", 9))
    UsageReservation.objects.filter(pk=reservation.id).update(
        tokens=40, settled_at=Now() - timedelta(seconds=13)
    )
    UsageReservation.objects.end_abandoned()
    assert counted(agent) == (1, 40, 0, 0)
    UsageReservation.objects.end_abandoned()
    assert counted(agent) == (1, 40, 0, 0)
