"""Usage counters: the usage of subjects, and the reservations of running turns.

A turn reserves an estimate before it calls its model, and replaces it by its real usage
when it ends: two statements, however many limits apply. Each is atomic, so parallel
turns cannot exceed a limit together. A reservation expires at the end of the epoch
after its own, so a killed process blocks no usage for longer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Q

from access.limits.time_windows import CALENDAR_MONTH, DAY, EVER, MINUTE, TimeWindow
from access.models import ApiToken as TokenRow
from access.models import UsageCounter
from access.users.caller import VerifiedToken

EPOCH_SECONDS = 600
"""A reservation lasts for one to two of these."""

RETENTION_MONTHS = 25
"""How many calendar months are stored, for reports."""


class CounterKey(NamedTuple):
    """The key of a counter: a subject and a window."""

    subject: str
    window: TimeWindow


class CounterValues(NamedTuple):
    """The values of a counter, with the total of all reservations."""

    epoch: int
    requests: int
    tokens: int
    micro_usd: int
    turns_reserved: int
    """Running turns."""
    tokens_reserved: int
    micro_usd_reserved: int


@dataclass(frozen=True, slots=True)
class Reservation:
    """The reservation of a turn, with the epoch of each counter."""

    epochs: Mapping[CounterKey, int]
    tokens: int
    micro_usd: int


@dataclass(frozen=True, slots=True)
class Charge:
    """The usage of a turn."""

    tokens: int
    micro_usd: int
    """The cost of the part that has a price."""
    is_priced: bool
    """Whether all usage has a price."""

    def __add__(self, other: "Charge") -> "Charge":
        return Charge(
            self.tokens + other.tokens,
            self.micro_usd + other.micro_usd,
            self.is_priced and other.is_priced,
        )


NO_CHARGE = Charge(0, 0, is_priced=True)


def _epoch_at(now: int) -> int:
    """Return the epoch of an instant."""
    return now // EPOCH_SECONDS


def reserve(
    keys: Collection[CounterKey],
    token: VerifiedToken | None,
    *,
    tokens: int,
    micro_usd: int,
    now: int,
) -> dict[CounterKey, CounterValues]:
    """Count a request and reserve its estimate; return the values of each counter.

    If the token is invalid or differs from the cached one, nothing is changed or
    returned. Call it in a transaction: the caller rolls back when a limit is exceeded.
    """
    params: list[Any] = [now, _epoch_at(now), tokens, micro_usd]
    # All turns lock counters in the same order, which prevents deadlocks.
    for key in sorted(keys):
        params += _key_params(key)
    if token is not None:
        params += _guard_params(token, now)
    with connection.cursor() as cursor:
        cursor.execute(_reserve_sql(len(keys), token is not None), params)
        return {
            CounterKey(subject, TimeWindow(length, start)): CounterValues(*values)
            for subject, length, start, *values in cursor.fetchall()
        }


def is_valid(token: VerifiedToken, *, now: int) -> bool:
    """Return whether a token is unchanged, not revoked and not expired."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 WHERE {TOKEN_GUARD_SQL}", _guard_params(token, now))
        return cursor.fetchone() is not None


def settle(
    keys: Sequence[CounterKey],
    reservation: Reservation | None,
    charge: Charge,
    *,
    now: int,
) -> None:
    """Charge a turn to its counters, and release its reservation.

    `keys` are counters to charge in addition to the reservation's.
    """
    epochs = {} if reservation is None else reservation.epochs
    updates = [(key, epoch, 0) for key, epoch in epochs.items()]
    updates += [(key, 0, 1) for key in keys if key not in epochs]
    _settle(updates, reservation, charge, now=now)


def release(reservation: Reservation, *, now: int) -> None:
    """Undo a reservation: the request was never started."""
    updates = [(key, epoch, -1) for key, epoch in reservation.epochs.items()]
    _settle(updates, reservation, NO_CHARGE, now=now)


def _settle(
    updates: Sequence[tuple[CounterKey, int, int]],
    reservation: Reservation | None,
    charge: Charge,
    *,
    now: int,
) -> None:
    """Update counters; each update has the reservation's epoch, and requests to add."""
    params: list[Any] = []
    for key, epoch, requests in sorted(updates):
        reserved = (0, 0, 0)
        if reservation is not None and key in reservation.epochs:
            reserved = (1, reservation.tokens, reservation.micro_usd)
        params += (*_key_params(key), requests, charge.tokens, charge.micro_usd)
        params += (0 if charge.is_priced else 1, now, epoch, *reserved)
    if updates:
        with connection.cursor() as cursor:
            cursor.execute(_settle_sql(len(updates)), params)


def prune(now: int) -> int:
    """Delete the counters of windows that have ended; return how many."""
    short = Q(window__gte=MINUTE, start__lt=now - 31 * DAY)
    short |= Q(window__range=(MINUTE, DAY), start__lt=now - 2 * DAY)
    old = Q(window=CALENDAR_MONTH, start__lt=now - RETENTION_MONTHS * 31 * DAY)
    # Agents and users have no budget for all time: their counter holds running turns.
    idle = Q(window=EVER, last_at__lt=now - 2 * DAY) & ~Q(subject__startswith="token:")
    deleted, _ = UsageCounter.objects.filter(short | old | idle).delete()
    return deleted


_ID = TokenRow._meta.get_field("id")
TABLE = UsageCounter._meta.db_table
RESERVED_COLUMNS = ("turns", "tokens", "micro_usd")
"""The reserved quantities; each has a column for the current epoch and for the last."""


TOKEN_GUARD_SQL = (
    f"EXISTS (SELECT 1 FROM {TokenRow._meta.db_table} WHERE id = %s "  # noqa: S608
    "AND version = %s AND revoked_at IS NULL "
    "AND (expires_at IS NULL OR expires_at > %s))"
)
"""The condition that a token is unchanged; `_guard_params` returns its parameters."""


def _guard_params(token: VerifiedToken, now: int) -> tuple[Any, ...]:
    at = connection.ops.adapt_datetimefield_value(datetime.fromtimestamp(now, UTC))
    return _ID.get_db_prep_value(token.id, connection), token.version, at


def _key_params(key: CounterKey) -> tuple[str, int, int]:
    return key.subject, key.window.length, key.window.start


def _placeholders(rows: int, columns: int) -> str:
    return ", ".join([f"({', '.join(['%s'] * columns)})"] * rows)


@lru_cache(maxsize=128)
def _reserve_sql(rows: int, is_guarded: bool) -> str:
    """Return the statement that reserves on so many counters.

    Its parameters are now, epoch, tokens and micro-dollars, the keys, then the token's
    id and version and the current time.
    """
    # A process whose clock is behind uses the epoch of the row.
    shifted = ", ".join(
        f"{name}_reserved_before = CASE WHEN {TABLE}.epoch >= excluded.epoch "
        f"THEN {TABLE}.{name}_reserved_before WHEN {TABLE}.epoch = excluded.epoch - 1 "
        f"THEN {TABLE}.{name}_reserved_now ELSE 0 END, "
        f"{name}_reserved_now = excluded.{name}_reserved_now + CASE "
        f"WHEN {TABLE}.epoch >= excluded.epoch "
        f"THEN {TABLE}.{name}_reserved_now ELSE 0 END"
        for name in RESERVED_COLUMNS
    )
    return (
        f"INSERT INTO {TABLE} (last_at, epoch, tokens_reserved_now, "  # noqa: S608
        'micro_usd_reserved_now, subject, "window", start, turns_reserved_now, '
        "requests, tokens, micro_usd, unpriced, "
        "turns_reserved_before, tokens_reserved_before, micro_usd_reserved_before) "
        "SELECT %s, %s, %s, %s, counter_keys.*, 1, 1, 0, 0, 0, 0, 0, 0 "
        f"FROM (VALUES {_placeholders(rows, 3)}) AS counter_keys "
        f"WHERE {TOKEN_GUARD_SQL if is_guarded else 'true'} "
        'ON CONFLICT (subject, "window", start) DO UPDATE SET '
        f"requests = {TABLE}.requests + 1, last_at = excluded.last_at, {shifted}, "
        f"epoch = CASE WHEN {TABLE}.epoch > excluded.epoch "
        f"THEN {TABLE}.epoch ELSE excluded.epoch END "
        'RETURNING subject, "window", start, epoch, requests, tokens, micro_usd, '
        + ", ".join(
            f"{name}_reserved_now + {name}_reserved_before" for name in RESERVED_COLUMNS
        )
    )


@lru_cache(maxsize=128)
def _settle_sql(rows: int) -> str:
    """Return the statement that charges so many counters and releases reservations.

    Its parameters are rows of key, requests, tokens, micro-dollars, turns without a
    price, now, and the epoch and amounts of the reservation.
    """
    # A reservation of an older epoch has already expired.
    returned = ", ".join(
        f"{name}_{when} = {TABLE}.{name}_{when} - CASE "
        f"WHEN {TABLE}.epoch - excluded.epoch = {age} "
        f"THEN excluded.{name}_reserved_now ELSE 0 END"
        for name in RESERVED_COLUMNS
        for when, age in (("reserved_now", 0), ("reserved_before", 1))
    )
    added = ", ".join(
        f"{name} = {TABLE}.{name} + excluded.{name}"
        for name in ("requests", "tokens", "micro_usd", "unpriced")
    )
    return (
        f'INSERT INTO {TABLE} (subject, "window", start, requests, tokens, micro_usd, '  # noqa: S608
        "unpriced, last_at, epoch, turns_reserved_now, tokens_reserved_now, "
        "micro_usd_reserved_now, "
        "turns_reserved_before, tokens_reserved_before, micro_usd_reserved_before) "
        "SELECT charges.*, 0, 0, 0 "
        f"FROM (VALUES {_placeholders(rows, 12)}) AS charges WHERE true "
        'ON CONFLICT (subject, "window", start) DO UPDATE SET '
        f"{added}, {returned}, last_at = excluded.last_at"
    )
