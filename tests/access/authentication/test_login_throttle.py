"""Delays of sign-ins, and reports of failures."""

import pytest

from access.authentication import login_throttle
from access.authentication.failed_logins import FailedLoginBurst
from access.authentication.login_throttle import LoginThrottle
from access.errors import LoginDelayed
from core.network.client_addresses import client_network
from tests.access.clock import Clock

A, B = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bursts() -> list[FailedLoginBurst]:
    return []


@pytest.fixture
def throttle(clock, bursts) -> LoginThrottle:
    throttle = LoginThrottle("test", report=bursts.append)
    throttle.clock = clock
    return throttle


def fail(throttle: LoginThrottle, address: str = A, name: str | None = "ada") -> None:
    throttle.fail(throttle.begin(address, name))


def fail_when_allowed(throttle, clock, address=A, name: str | None = "ada") -> float:
    """Wait for the throttle's delay, fail, and return the delay."""
    wait = delay(throttle, address, name)
    clock.now += wait
    fail(throttle, address, name)
    return wait


def delay(throttle: LoginThrottle, address: str = A, name: str | None = "ada") -> float:
    try:
        throttle.check(address, name)
    except LoginDelayed as exc:
        return exc.retry_after_seconds or 0.0
    return 0.0


def test_delay_doubles_after_five_failures_up_to_a_cap(throttle, clock):
    waits = [fail_when_allowed(throttle, clock, name=None) for _ in range(16)]
    assert waits == [0] * 5 + [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_refused_login_does_not_extend_the_delay(throttle, clock):
    for _ in range(6):
        fail_when_allowed(throttle, clock)
    clock.now += 1.5
    for _ in range(100):
        with pytest.raises(LoginDelayed):
            throttle.begin(A, "ada")
    assert delay(throttle) == pytest.approx(0.5)


def test_failures_are_forgotten_after_quiet_time(throttle, clock):
    for _ in range(30):
        fail_when_allowed(throttle, clock)
    assert delay(throttle) == 300
    clock.now += login_throttle.FORGET_SECONDS - 1
    fail(throttle)
    assert delay(throttle) == 300
    clock.now += login_throttle.FORGET_SECONDS
    for _ in range(4):
        fail(throttle)
    assert delay(throttle) == 0


def test_success_of_another_name_does_not_end_a_series(throttle):
    """An attacker with a valid login could continue to guess others."""
    for _ in range(5):
        throttle.succeed(throttle.begin(A, "mallory"), "mallory")
        fail(throttle, A, "ada")
    assert delay(throttle, A, "ada") > 0
    assert delay(throttle, A, "mallory") > 0


def test_name_is_delayed_across_addresses(throttle, clock):
    for number in range(10):
        clock.now += 60
        fail(throttle, f"198.51.100.{number}", "ada")
    assert delay(throttle, B, "ada") == 16
    assert delay(throttle, B, "bob") == 0
    # Addresses with failures wait twice as long as others.
    assert delay(throttle, "198.51.100.3", "ada") == 32
    clock.now += 1000
    assert delay(throttle, B, "ada") == 0


def test_name_is_not_delayed_at_a_known_address(throttle, clock):
    throttle.succeed(throttle.begin(A, "ada"), "ada")
    for number in range(10):
        clock.now += 60
        fail(throttle, f"198.51.100.{number}", "ada")
    assert delay(throttle, A, "ada") == 0
    assert delay(throttle, B, "ada") > 0
    fail(throttle, A, "ada")
    assert delay(throttle, A, "ada") == 0
    for _ in range(4):
        fail(throttle, A, "ada")
    assert delay(throttle, A, "ada") == 1


def test_honest_client_succeeds_during_an_attack(throttle, clock):
    """The attacker retries at once; the honest client waits for the delay."""
    for _ in range(5):
        fail(throttle, A, "ada")
    honest_at, waits = clock.now, []
    for _ in range(20):
        attacker_at = clock.now + delay(throttle, A, "ada")
        if honest_at <= attacker_at:
            clock.now = honest_at
            waits.append(delay(throttle, B, "ada"))
            if not waits[-1]:
                break
            honest_at += -(-waits[-1] // 1)  # as `Retry-After` says
        else:
            clock.now = attacker_at
            fail(throttle, A, "ada")
    assert waits[-1] == 0


def test_running_checks_count_as_failures(throttle):
    running = [throttle.begin(A, "ada") for _ in range(5)]
    assert delay(throttle) == login_throttle.CHECKING_DELAY_SECONDS
    throttle.succeed(running.pop(), "ada")
    throttle.withdraw(running.pop())
    assert delay(throttle) == 0
    for attempt in running:
        throttle.fail(attempt)
    fail(throttle)
    last = throttle.begin(A, "ada")
    assert delay(throttle) == login_throttle.CHECKING_DELAY_SECONDS
    throttle.fail(last)
    assert delay(throttle) == 1.0


def test_tables_are_bounded(throttle, clock, monkeypatch):
    monkeypatch.setattr(login_throttle, "MAX_SERIES", 50)
    monkeypatch.setattr(login_throttle, "MAX_KNOWN_ADDRESSES", 50)
    for number in range(300):
        clock.now += 1
        address = f"2001:db8:0:{number:x}::1"
        fail(throttle, address, f"name-{number}")
        throttle.succeed(throttle.begin(address, "own"), "own")
    for table in (throttle._by_address, throttle._by_name, throttle._known_addresses):
        assert 49 <= len(table) <= 50
    # The newest entries stay.
    assert throttle.is_known_address("2001:db8:0:12b::ffff", "own")


def test_successful_logins_leave_no_entries(throttle):
    for number in range(20):
        throttle.succeed(throttle.begin(f"198.51.100.{number}", "ada"), "ada")
    assert len(throttle._by_address) == len(throttle._by_name) == 0


def test_long_name_takes_constant_space(throttle):
    fail(throttle, A, "x" * 3000)
    fail(throttle, A, "\ud800")
    assert {len(key) for key in throttle._by_name._series} == {16}


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::2", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
        ("not an address", "not an address"),
    ],
)
def test_addresses_are_grouped_by_network(address, network):
    assert client_network(address) == network


# Reports.


def test_burst_is_reported_once(throttle, clock, bursts):
    for _ in range(4):
        fail(throttle)
    assert bursts == []
    for _ in range(8):
        fail_when_allowed(throttle, clock)
    [burst] = bursts
    assert burst == FailedLoginBurst("test", A, "ada", failures=5)
    assert str(burst) == "5 failed sign-ins from 192.0.2.1 for name 'ada'"


def test_continuing_series_is_reported_hourly(throttle, clock, bursts):
    end = clock.now + 3 * 3600 + 60
    while clock.now < end:
        fail_when_allowed(throttle, clock, name=None)
    assert [burst.failures for burst in bursts][:1] == [5]
    assert len(bursts) == 4
    assert all(burst.failures >= 12 for burst in bursts[1:])


def test_one_name_from_many_addresses_is_one_burst(throttle, clock, bursts):
    for number in range(40):
        clock.now += 60
        fail(throttle, f"198.51.100.{number}", "ada")
    [burst] = bursts
    assert burst.is_distributed
    assert str(burst) == "5 failed sign-ins from several addresses for name 'ada'"


def test_many_names_from_one_address_are_one_burst(throttle, clock, bursts):
    for number in range(9):
        fail_when_allowed(throttle, clock, A, f"name-{number}")
    [burst] = bursts
    assert (burst.network, burst.name, burst.is_distributed) == (A, "name-4", False)


def test_reports_are_bounded(throttle, clock, bursts, monkeypatch):
    for number in range(300):
        for _ in range(5):
            fail(throttle, f"2001:db8:0:{number:x}::1", f"name-{number}")
    assert len(bursts) == login_throttle.MAX_REPORTS
    clock.now += login_throttle.REPORT_INTERVAL_SECONDS
    for _ in range(5):
        fail(throttle, B, "bob")
    assert bursts[-1].network == B


def test_name_is_quoted_and_truncated():
    burst = FailedLoginBurst("test", A, "x\n\x1b[31m" + "y" * 500, failures=1)
    assert str(burst).startswith(
        "1 failed sign-in from 192.0.2.1 for name 'x\\n\\x1b[31m"
    )
    assert len(str(burst)) < 150
