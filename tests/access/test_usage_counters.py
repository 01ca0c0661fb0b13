"""Usage counters: reserve, settle, release, expire and prune."""

import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from access.limits import time_windows
from access.limits.time_windows import TimeWindow
from access.limits.usage_counters import (
    NO_CHARGE,
    Charge,
    CounterKey,
    Reservation,
)
from access.models import ApiToken, UsageCounter
from access.models.counters import EPOCH_SECONDS
from access.tokens import api_tokens, token_secrets
from access.users.caller import VerifiedToken
from database import retention
from tests.access.actors import ADA

pytestmark = pytest.mark.database

NOW = 1_800_000_000 - 1_800_000_000 % EPOCH_SECONDS + 1
"""The second second of an epoch."""


@pytest.fixture
def subject(database: None) -> str:
    return f"user:{uuid.uuid4().hex}"


def hour(subject: str, now: int = NOW) -> CounterKey:
    return CounterKey(subject, time_windows.window_at(time_windows.HOUR, now))


def aside(key: CounterKey, *, tokens: int = 100, micro_usd: int = 10, now: int = NOW):
    """Reserve; return the counter's values and the reservation."""
    used = UsageCounter.objects.reserve(
        [key], None, tokens=tokens, micro_usd=micro_usd, now=now
    )
    return used[key], Reservation({key: used[key].epoch}, tokens, micro_usd)


def row(key: CounterKey) -> UsageCounter:
    return UsageCounter.objects.get(
        subject=key.subject, window=key.window.length, start=key.window.start
    )


def reserved(key: CounterKey) -> tuple[int, int, int]:
    """Return the stored reservations, expired ones included."""
    found = row(key)
    return (
        found.turns_reserved_now + found.turns_reserved_before,
        found.tokens_reserved_now + found.tokens_reserved_before,
        found.micro_usd_reserved_now + found.micro_usd_reserved_before,
    )


def test_reservations_add_up(subject):
    key = hour(subject)
    aside(key)
    used, _ = aside(key, tokens=7, micro_usd=3)
    assert (used.requests, used.tokens, used.micro_usd) == (2, 0, 0)
    assert (used.turns_reserved, used.tokens_reserved, used.micro_usd_reserved) == (
        2,
        107,
        13,
    )


def test_charge_replaces_its_reservation(subject):
    key = hour(subject)
    _, first = aside(key)
    aside(key, tokens=7, micro_usd=3)
    UsageCounter.objects.settle([key], first, Charge(40, 4, is_priced=True), now=NOW)
    found = row(key)
    assert reserved(key) == (1, 7, 3)
    assert (found.requests, found.tokens, found.micro_usd) == (2, 40, 4)
    assert found.unpriced == 0


def test_turn_without_price_is_counted(subject):
    key = hour(subject)
    UsageCounter.objects.settle([key], None, Charge(40, 0, is_priced=False), now=NOW)
    UsageCounter.objects.settle([key], None, Charge(2, 5, is_priced=True), now=NOW + 1)
    found = row(key)
    assert (found.requests, found.tokens, found.micro_usd) == (2, 42, 5)
    assert (found.unpriced, found.last_at) == (1, NOW + 1)


@pytest.mark.parametrize("later", [0, EPOCH_SECONDS])
def test_reservation_lasts_through_the_next_epoch(subject, later):
    key = hour(subject)
    aside(key)
    used, _ = aside(key, now=NOW + later)
    assert (used.turns_reserved, used.tokens_reserved, used.micro_usd_reserved) == (
        2,
        200,
        20,
    )


@pytest.mark.parametrize("epochs", [2, 3, 1000])
def test_reservation_of_a_killed_process_expires(subject, epochs):
    key = hour(subject)
    aside(key)
    used, _ = aside(key, now=NOW + epochs * EPOCH_SECONDS)
    assert (used.turns_reserved, used.tokens_reserved, used.micro_usd_reserved) == (
        1,
        100,
        10,
    )


@pytest.mark.parametrize("epochs", [0, 1, 2, 5])
def test_late_charge_releases_only_its_own_reservation(subject, epochs):
    key = hour(subject)
    _, first = aside(key)
    later = NOW + epochs * EPOCH_SECONDS
    _, second = aside(key, tokens=7, micro_usd=3, now=later)
    UsageCounter.objects.settle([key], first, Charge(40, 4, is_priced=True), now=later)
    assert reserved(key) == (1, 7, 3)
    UsageCounter.objects.settle([key], second, Charge(1, 1, is_priced=True), now=later)
    assert reserved(key) == (0, 0, 0)
    assert row(key).tokens == 41


def test_clock_behind_expires_nothing(subject):
    key = hour(subject)
    aside(key, now=NOW + EPOCH_SECONDS)
    used, behind = aside(key, now=NOW)
    assert used.turns_reserved == 2
    UsageCounter.objects.settle([key], behind, NO_CHARGE, now=NOW)
    assert reserved(key) == (1, 100, 10)


def test_subjects_and_windows_are_separate(subject):
    day = CounterKey(subject, time_windows.window_at(time_windows.DAY, NOW))
    other = hour(f"user:{uuid.uuid4().hex}")
    used = UsageCounter.objects.reserve(
        [hour(subject), day, other], None, tokens=1, micro_usd=1, now=NOW
    )
    assert set(used) == {hour(subject), day, other}
    UsageCounter.objects.settle([day], None, Charge(5, 5, is_priced=True), now=NOW)
    assert [row(key).tokens for key in (hour(subject), day, other)] == [0, 5, 0]


def test_turn_takes_two_statements(subject, database, django_assert_num_queries):
    keys = [
        CounterKey(subject, time_windows.window_at(length, NOW))
        for length in (
            time_windows.EVER,
            time_windows.HOUR,
            time_windows.DAY,
            time_windows.MONTH,
        )
    ]
    with django_assert_num_queries(2):
        used = UsageCounter.objects.reserve(keys, None, tokens=1, micro_usd=1, now=NOW)
        epochs = {key: each.epoch for key, each in used.items()}
        UsageCounter.objects.settle(keys, Reservation(epochs, 1, 1), NO_CHARGE, now=NOW)


def create_token(**fields) -> tuple[ApiToken, VerifiedToken]:
    token_row, secret = api_tokens.create_token(
        "ci", f"user-{uuid.uuid4()}", by=ADA, **fields
    )
    found = ApiToken.objects.verify(token_secrets.digest(secret), datetime.now(UTC))
    assert found is not None
    return token_row, found


def is_current(token: VerifiedToken, now: int) -> bool:
    return ApiToken.objects.is_current(token, datetime.fromtimestamp(now, UTC))


def test_valid_token_may_reserve(subject):
    _, token = create_token()
    now = int(datetime.now(UTC).timestamp())
    assert is_current(token, now)
    assert UsageCounter.objects.reserve(
        [hour(subject)], token, tokens=1, micro_usd=1, now=now
    )


def test_revoked_token_cannot_reserve(subject):
    token_row, token = create_token()
    api_tokens.revoke(str(token_row.id), by=ADA)
    now = int(datetime.now(UTC).timestamp())
    assert not is_current(token, now)
    assert not UsageCounter.objects.reserve(
        [hour(subject)], token, tokens=1, micro_usd=1, now=now
    )
    assert not UsageCounter.objects.filter(subject=subject).exists()


def test_expired_token_cannot_reserve(subject):
    end = datetime.now(UTC) + timedelta(hours=1)
    _, token = create_token(expires_at=end)
    before, after = int(end.timestamp()) - 1, int(end.timestamp()) + 1
    assert is_current(token, before)
    assert not is_current(token, after)
    key = hour(subject)
    assert not UsageCounter.objects.reserve(
        [key], token, tokens=1, micro_usd=1, now=after
    )


def test_changed_token_is_looked_up_again(subject):
    token_row, token = create_token()
    ApiToken.objects.filter(pk=token_row.pk).update(version=2)
    now = int(datetime.now(UTC).timestamp())
    assert not is_current(token, now)
    again = ApiToken.objects.get(pk=token.id).verified(datetime.now(UTC))
    assert again is not None
    assert is_current(again, now)


def test_parallel_reservations_do_not_exceed_the_limit(subject):
    """Forty threads with own transactions start together, with a limit of ten."""
    key = hour(subject)
    barrier = threading.Barrier(40)
    served = []

    def ask() -> None:
        barrier.wait()
        try:
            with transaction.atomic():
                used = UsageCounter.objects.reserve(
                    [key], None, tokens=1, micro_usd=1, now=NOW
                )
                if used[key].requests > 10:
                    raise LookupError
            served.append(used[key].requests)
        except LookupError:
            pass
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(served) == list(range(1, 11))
    assert reserved(key) == (10, 10, 10)


def test_past_windows_are_deleted(subject):
    lengths = (
        time_windows.MINUTE,
        time_windows.HOUR,
        time_windows.DAY,
        time_windows.MONTH,
    )
    lengths += (time_windows.CALENDAR_MONTH, time_windows.EVER)
    token = f"token:{uuid.uuid4().hex}"
    for name in (subject, token):
        for length in lengths:
            key = CounterKey(name, time_windows.window_at(length, NOW))
            UsageCounter.objects.settle([key], None, NO_CHARGE, now=NOW)

    def stored_windows(name: str) -> list[int]:
        found = UsageCounter.objects.filter(subject=name).values_list(
            "window", flat=True
        )
        return sorted(found)

    def delete_expired(seconds: int) -> None:
        retention.delete_expired(UsageCounter, datetime.fromtimestamp(seconds, UTC))

    delete_expired(NOW + 1)
    assert stored_windows(subject) == sorted(lengths)
    delete_expired(NOW + 3 * time_windows.DAY)
    assert stored_windows(subject) == [time_windows.CALENDAR_MONTH, time_windows.MONTH]
    delete_expired(NOW + 62 * time_windows.DAY)
    assert stored_windows(subject) == [time_windows.CALENDAR_MONTH]
    delete_expired(NOW + 800 * time_windows.DAY)
    assert stored_windows(subject) == []
    # A token's total spending is kept as long as the token.
    assert stored_windows(token) == [time_windows.EVER]


# Windows.


def epoch_seconds(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp())


def test_windows_are_aligned_to_the_epoch():
    now = epoch_seconds(2026, 5, 6, 13, 45, 30)
    assert time_windows.window_at(time_windows.MINUTE, now).start == epoch_seconds(
        2026, 5, 6, 13, 45
    )
    assert time_windows.window_at(time_windows.HOUR, now) == TimeWindow(
        3600, epoch_seconds(2026, 5, 6, 13)
    )
    assert time_windows.window_at(time_windows.DAY, now).end == epoch_seconds(
        2026, 5, 7
    )
    month = time_windows.window_at(time_windows.MONTH, now)
    assert month.start % (30 * 86_400) == 0
    assert month.start <= now < month.end == month.start + 30 * 86_400


@pytest.mark.parametrize(
    ("now", "start", "end"),
    [
        ((2026, 2, 28, 23, 59, 59), (2026, 2, 1), (2026, 3, 1)),
        ((2028, 2, 29), (2028, 2, 1), (2028, 3, 1)),
        ((2026, 12, 31, 23, 59, 59), (2026, 12, 1), (2027, 1, 1)),
        ((2027, 1, 1), (2027, 1, 1), (2027, 2, 1)),
        ((2026, 4, 30), (2026, 4, 1), (2026, 5, 1)),
    ],
)
def test_calendar_month_windows_follow_the_calendar(now, start, end):
    window = time_windows.window_at(time_windows.CALENDAR_MONTH, epoch_seconds(*now))
    assert (window.start, window.end) == (epoch_seconds(*start), epoch_seconds(*end))
