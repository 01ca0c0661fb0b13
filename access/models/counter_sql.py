"""The two statements of usage counters, with their parameters.

Each counts on all counters of a turn at once, which the ORM cannot express.
"""

from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import UUIDField

from access.limits.usage_counters import CounterKey
from access.users.caller import VerifiedToken

TABLE = "access_usagecounter"
RESERVED_COLUMNS = ("turns", "tokens", "micro_usd")
"""The reserved quantities; each has a column for the current epoch and for the last."""


IS_CURRENT = (
    "EXISTS (SELECT 1 FROM access_apitoken WHERE id = %s "
    "AND version = %s AND revoked_at IS NULL "
    "AND (expires_at IS NULL OR expires_at > %s))"
)
"""The condition that a token is unchanged; `guard_params` returns its parameters."""


def guard_params(token: VerifiedToken, now: datetime) -> tuple[Any, ...]:
    return (
        UUIDField().get_db_prep_value(token.id, connection),
        token.version,
        connection.ops.adapt_datetimefield_value(now),
    )


def key_params(key: CounterKey) -> tuple[str, int, int]:
    return key.subject, key.window.length, key.window.start


def _placeholders(rows: int, columns: int) -> str:
    return ", ".join([f"({', '.join(['%s'] * columns)})"] * rows)


@lru_cache(maxsize=128)
def reserve_sql(rows: int, is_guarded: bool) -> str:
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
        f"WHERE {IS_CURRENT if is_guarded else 'true'} "
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
def settle_sql(rows: int) -> str:
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
