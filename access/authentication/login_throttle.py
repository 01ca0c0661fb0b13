"""Delays sign-ins after failed ones, per client address and per name.

After `FREE_FAILURES` failures each further one doubles the delay, up to a cap. A
delayed sign-in is refused before any hash is computed, and does not lengthen the delay.
Some quiet time ends the series of failures. A success does not end it, since an
attacker with a valid login could then continue to guess another one.

Honest clients are not locked out: the delay of a name does not apply to addresses that
have signed in with this name before, and is half as long for addresses without
failures, so these come before an attacker. Known-good credentials skip the throttle
from addresses that have used them before (`access/authentication/basic_auth.py`). From
other addresses they do not: there the response would reveal which guess was right.

Each process counts on its own, so N web processes allow N times the free failures.
"""

import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from access.authentication import failed_logins
from access.authentication.failed_logins import FailedLoginBurst
from access.errors import LoginDelayed
from core.network.client_addresses import client_network

FREE_FAILURES = 5
ADDRESS_CAP_SECONDS = 300.0
NAME_CAP_SECONDS = 120.0
"""Shorter, because this delay also applies to the name's owner at a new address."""
CLEAN_ADDRESS_SHARE = 0.5
"""The part of a name's delay that applies to addresses without failures."""
FORGET_SECONDS = 900.0
"""The time without further failures after which a series is forgotten."""
CHECKING_DELAY_SECONDS = 1.0
"""The delay while the only allowed check still runs."""

MAX_SERIES = 10_000
MAX_KNOWN_ADDRESSES = 10_000
REPORT_INTERVAL_SECONDS = 3600.0
"""The interval of reports of a continuing series."""
MAX_REPORTS = 100
"""Reports in `REPORT_INTERVAL_SECONDS`, from all addresses together."""


@dataclass(slots=True)
class FailureSeries:
    """Failures from one address, or for one name."""

    cap_seconds: float
    failures: int = 0
    checking: int = 0
    """Sign-ins in progress; they count as failures until they succeed."""
    last_at: float = 0.0
    unreported: int = 0
    reported_at: float | None = None
    network: str = ""
    """The address of the first failure."""
    is_mixed: bool = False
    """Whether failures came from several addresses."""

    def wait_seconds(self, now: float, *, share: float = 1.0) -> float:
        """Return the remaining part of a share of the delay; 0 for none."""
        excess = self.failures - FREE_FAILURES
        if excess >= 0:
            delay = min(2.0 ** min(excess, 30), self.cap_seconds)
            if (remaining := self.last_at + share * delay - now) > 0:
                return remaining
        is_busy = self.checking and excess + self.checking >= 0
        return CHECKING_DELAY_SECONDS if is_busy else 0.0

    def add(self, network: str, now: float) -> None:
        self.is_mixed = self.is_mixed or self.network not in ("", network)
        self.network = self.network or network
        self.failures += 1
        self.unreported += 1
        self.last_at = now

    def is_due(self, now: float) -> bool:
        """Return whether a report is due."""
        is_unreported = (
            self.reported_at is None
            or now - self.reported_at >= REPORT_INTERVAL_SECONDS
        )
        return is_unreported and self.failures >= FREE_FAILURES

    def report(self, now: float) -> int:
        """Return the number of failures to report, and store the time."""
        count, self.unreported, self.reported_at = self.unreported, 0, now
        return count


K = TypeVar("K")


class FailureTable(Generic[K]):
    """Series by address or name; a full table drops the least recently used one."""

    def __init__(self, cap_seconds: float) -> None:
        self._cap_seconds = cap_seconds
        self._series: dict[K, FailureSeries] = {}

    def __len__(self) -> int:
        return len(self._series)

    def clear(self) -> None:
        self._series.clear()

    def find(self, key: K, now: float) -> FailureSeries | None:
        """Return the active series of a key, if any."""
        series = self._series.get(key)
        if series is None or series.checking or now - series.last_at < FORGET_SECONDS:
            return series
        del self._series[key]
        return None

    def open(self, key: K, now: float) -> FailureSeries:
        """Return the series of a key; create one if necessary."""
        series = self.find(key, now) or FailureSeries(self._cap_seconds)
        series.last_at = series.last_at or now
        self._series.pop(key, None)
        self._series[key] = series
        while len(self._series) > MAX_SERIES:
            del self._series[next(iter(self._series))]
        return series

    def discard(self, key: K, series: FailureSeries) -> None:
        """Remove a series without failures."""
        is_empty = not series.failures and not series.checking
        if is_empty and self._series.get(key) is series:
            del self._series[key]


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A sign-in in progress."""

    network: str
    name: str | None
    by_address: FailureSeries
    by_name: FailureSeries | None

    @property
    def series(self) -> tuple[FailureSeries, ...]:
        return tuple(each for each in (self.by_address, self.by_name) if each)


class LoginThrottle:
    """The failed sign-ins of one scope; used by one event loop."""

    def __init__(
        self,
        scope: str,
        report: Callable[[FailedLoginBurst], None] = failed_logins.report,
    ) -> None:
        self.scope = scope
        self.clock: Callable[[], float] = time.monotonic
        self._report = report
        self._by_address: FailureTable[str] = FailureTable(ADDRESS_CAP_SECONDS)
        self._by_name: FailureTable[bytes] = FailureTable(NAME_CAP_SECONDS)
        self._known_addresses: dict[tuple[str, str | None], None] = {}
        self._reports: deque[float] = deque(maxlen=MAX_REPORTS)

    def is_known_address(self, address: str, name: str | None) -> bool:
        """Return whether this address has signed in with this name."""
        return (client_network(address), name) in self._known_addresses

    def check(self, address: str, name: str | None) -> None:
        """Raise `LoginDelayed` during a delay."""
        now = self.clock()
        by_address = self._by_address.find(client_network(address), now)
        seconds = 0.0 if by_address is None else by_address.wait_seconds(now)
        if name is not None and not self.is_known_address(address, name):
            by_name = self._by_name.find(_key(name), now)
            has_failed = by_address is not None and by_address.failures > 0
            share = 1.0 if has_failed else CLEAN_ADDRESS_SHARE
            if by_name is not None:
                seconds = max(seconds, by_name.wait_seconds(now, share=share))
        if seconds:
            raise LoginDelayed(seconds)

    def begin(self, address: str, name: str | None) -> LoginAttempt:
        """Return an attempt to which the check reports its result; raises
        `LoginDelayed`."""
        self.check(address, name)
        now = self.clock()
        network = client_network(address)
        attempt = LoginAttempt(
            network,
            name,
            self._by_address.open(network, now),
            None if name is None else self._by_name.open(_key(name), now),
        )
        for series in attempt.series:
            series.checking += 1
        return attempt

    def fail(self, attempt: LoginAttempt) -> None:
        """Count a failure, and report it if a burst begins or continues."""
        now = self.clock()
        for series in attempt.series:
            series.checking -= 1
            series.add(attempt.network, now)
        self._report_burst(attempt, now)

    def succeed(self, attempt: LoginAttempt, name: str | None) -> None:
        """Remove the provisional failure, and remember the address."""
        self.withdraw(attempt)
        self.remember_address(attempt.network, name)

    def remember_address(self, address: str, name: str | None) -> None:
        key = (client_network(address), name)
        self._known_addresses.pop(key, None)
        self._known_addresses[key] = None
        while len(self._known_addresses) > MAX_KNOWN_ADDRESSES:
            del self._known_addresses[next(iter(self._known_addresses))]

    def withdraw(self, attempt: LoginAttempt) -> None:
        """Remove the provisional failure: the sign-in was not checked."""
        for series in attempt.series:
            series.checking -= 1
        self._by_address.discard(attempt.network, attempt.by_address)
        if attempt.name is not None and attempt.by_name is not None:
            self._by_name.discard(_key(attempt.name), attempt.by_name)

    def forget(self) -> None:
        """Forget all failures and addresses."""
        self._by_address.clear()
        self._by_name.clear()
        self._known_addresses.clear()
        self._reports.clear()

    def _report_burst(self, attempt: LoginAttempt, now: float) -> None:
        by_address, by_name = attempt.by_address, attempt.by_name
        is_due = by_address.is_due(now)
        is_name_due = by_name is not None and by_name.is_mixed and by_name.is_due(now)
        if not is_due and not is_name_due:
            return
        is_full = len(self._reports) == MAX_REPORTS
        if is_full and now - self._reports[0] < REPORT_INTERVAL_SECONDS:
            return
        self._reports.append(now)
        counts = [each.report(now) for each in attempt.series if each.is_due(now)]
        self._report(
            FailedLoginBurst(
                self.scope,
                attempt.network,
                attempt.name,
                failures=max(counts),
                is_distributed=not is_due,
            )
        )


def _key(name: str) -> bytes:
    """Return a table key of fixed length for a name of any length."""
    raw = name.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=16).digest()


API_THROTTLE = LoginThrottle("/v1")
"""The throttle of `auth.proxy`."""
CONSUMER_THROTTLE = LoginThrottle("mcp_consumer_secret")
STUDIO_THROTTLE = LoginThrottle("studio")
"""The throttle of `auth.admin`."""
