"""The statements of usage counters, with their parameters.

Each counts on all counters of a turn at once, which the ORM cannot express.

Many turns share the counters of an agent or of a token, so PostgreSQL locks them for
one statement only: never during a round trip to this process or the flush of a commit.
Its reservations are not flushed (`NOT_FLUSHED`), and the charge of a turn is stored
with the turn in a row of its own (`access.models.reservations`), then applied.
"""

from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import UUIDField

from access.limits.time_windows import TimeWindow
from access.limits.usage_counters import CounterKey, CounterValues
from access.users.caller import VerifiedToken

TABLE = "access_usagecounter"
RESERVATIONS = "access_usagereservation"
RESERVED_COLUMNS = ("turns", "tokens", "micro_usd")
"""The reserved quantities; each has a column for the current epoch and for the last."""


IS_CURRENT = (
    "EXISTS (SELECT 1 FROM access_apitoken WHERE id = %s "
    "AND version = %s AND revoked_at IS NULL "
    "AND (expires_at IS NULL OR expires_at > %s))"
)
"""The condition that a token is unchanged; `guard_params` returns its parameters."""

NOT_FLUSHED = "set_config('synchronous_commit', 'off', true) IS NOT NULL"
"""A true condition. The transaction of its statement ends without waiting for the disk
or a replica: only a failing database loses it, with up to 0.6 s of others, and
reservations need not outlast that. https://www.postgresql.org/docs/current/wal-async-commit.html
"""


def has_single_statements() -> bool:
    """Return whether one statement can delete from one table and insert into another.

    SQLite cannot, and need not: it has one writer at a time.
    """
    return connection.vendor == "postgresql"


def guard_params(token: VerifiedToken, now: datetime) -> tuple[Any, ...]:
    return (
        uuid_param(token.id),
        token.version,
        connection.ops.adapt_datetimefield_value(now),
    )


def uuid_param(value: Any) -> Any:
    return UUIDField().get_db_prep_value(value, connection)


def key_params(key: CounterKey) -> tuple[str, int, int]:
    return key.subject, key.window.length, key.window.start


def read_values(cursor: Any) -> dict[CounterKey, CounterValues]:
    return {
        CounterKey(subject, TimeWindow(length, start)): CounterValues(*values)
        for subject, length, start, *values in cursor.fetchall()
    }


def _placeholders(rows: int, columns: int) -> str:
    return ", ".join([f"({', '.join(['%s'] * columns)})"] * rows)


def _valid_reserved(name: str, epoch: str) -> str:
    """Return the reserved quantity of a row that has not expired in this epoch."""
    return (
        f"CASE WHEN epoch >= {epoch} "
        f"THEN {name}_reserved_now + {name}_reserved_before "
        f"WHEN epoch = {epoch} - 1 THEN {name}_reserved_now ELSE 0 END"
    )


@lru_cache(maxsize=128)
def read_sql(rows: int) -> str:
    """Return the query of so many counters; its parameters are 6 epochs, then keys."""
    reserved = ", ".join(_valid_reserved(name, "%s") for name in RESERVED_COLUMNS)
    return (
        'SELECT subject, "window", start, epoch, requests, tokens, micro_usd, '  # noqa: S608
        f'{reserved} FROM {TABLE} WHERE (subject, "window", start) '
        f"IN (VALUES {_placeholders(rows, 3)})"
    )


def _counting_sql(source: str) -> str:
    """Return the statement that reserves on the counters of this SELECT."""
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
        f"INSERT INTO {TABLE} (last_at, epoch, tokens_reserved_now, "
        'micro_usd_reserved_now, subject, "window", start, turns_reserved_now, '
        "requests, tokens, micro_usd, unpriced, "
        "turns_reserved_before, tokens_reserved_before, micro_usd_reserved_before) "
        f"{source} "
        'ON CONFLICT (subject, "window", start) DO UPDATE SET '
        f"requests = {TABLE}.requests + 1, last_at = excluded.last_at, {shifted}, "
        f"epoch = CASE WHEN {TABLE}.epoch > excluded.epoch "
        f"THEN {TABLE}.epoch ELSE excluded.epoch END "
        'RETURNING subject, "window", start, epoch, requests, tokens, micro_usd, '
        + ", ".join(
            f"{name}_reserved_now + {name}_reserved_before AS {name}_reserved"
            for name in RESERVED_COLUMNS
        )
    )


@lru_cache(maxsize=128)
def reserve_sql(rows: int, is_guarded: bool) -> str:
    """Return the statement that reserves on so many counters, whatever their values.

    Its parameters are now, epoch, tokens and micro-dollars, the keys, then the token's
    id and version and the current time.
    """
    conditions = [IS_CURRENT if is_guarded else "true"]
    if has_single_statements():
        conditions.append(NOT_FLUSHED)
    return _counting_sql(
        "SELECT %s, %s, %s, %s, counter_keys.*, 1, 1, 0, 0, 0, 0, 0, 0 "  # noqa: S608
        f"FROM (VALUES {_placeholders(rows, 3)}) AS counter_keys "
        f"WHERE {' AND '.join(conditions)}"
    )


@lru_cache(maxsize=128)
def reserve_if_free_sql(rows: int, is_guarded: bool) -> str:
    """Return PostgreSQL's statement that reserves if all counters are below ceilings.

    It does nothing if a counter has no row yet. Its parameters are now, epoch, tokens
    and micro-dollars, the keys with their ceilings, those of the token as in
    `reserve_sql`, then the id and the process of the reservation.
    """
    reserved = {
        name: f"({_valid_reserved(name, 'current_epoch')})" for name in RESERVED_COLUMNS
    }
    # Like all statements, it locks counters in the order of their keys in Python.
    order = 'subject COLLATE "C", "window", start'
    counting = _counting_sql(
        "SELECT at, current_epoch, own_tokens, own_micro_usd, "  # noqa: S608
        'subject, "window", start, 1, 1, 0, 0, 0, 0, 0, 0 FROM asked, request '
        f"WHERE (SELECT count(*) FROM free) = {rows} AND {NOT_FLUSHED} "
        f"AND {IS_CURRENT if is_guarded else 'true'} ORDER BY {order}"
    )
    return (
        "WITH request (at, current_epoch, own_tokens, own_micro_usd) AS "  # noqa: S608
        "(VALUES (%s::bigint, %s::bigint, %s::bigint, %s::bigint)), "
        'asked (subject, "window", start, max_requests, max_turns, max_tokens, '
        f"max_micro_usd) AS (VALUES {_placeholders(rows, 7)}), "
        f"free AS (SELECT 1 FROM {TABLE} AS counter JOIN asked "
        'USING (subject, "window", start) CROSS JOIN request '
        f"WHERE requests <= max_requests AND {reserved['turns']} <= max_turns "
        f"AND tokens + {reserved['tokens']} <= max_tokens "
        f"AND micro_usd + {reserved['micro_usd']} <= max_micro_usd "
        f"ORDER BY {order} FOR UPDATE OF counter), "
        f"counted AS ({counting}), "
        f"reserved AS (INSERT INTO {RESERVATIONS} "
        "(id, process, counters, tokens_reserved, micro_usd_reserved) "
        "SELECT %s, %s, jsonb_agg(jsonb_build_array("
        'subject, "window", start, epoch, 0)), '
        "min(own_tokens), min(own_micro_usd) "
        "FROM counted, request HAVING count(*) > 0) "
        "SELECT * FROM counted"
    )


@lru_cache(maxsize=128)
def settle_sql(rows: int, ends_reservation: bool = False) -> str:
    """Return the statement that charges so many counters and releases reservations.

    Its parameters are rows of key, requests, tokens, micro-dollars, turns without a
    price, now, and the epoch and amounts of the reservation. If it also deletes the
    row of a reservation, its id is the first parameter.
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
    ended, condition = "", "true"
    if ends_reservation:
        ended = f"WITH ended AS (DELETE FROM {RESERVATIONS} WHERE id = %s RETURNING 1) "  # noqa: S608
        condition = f"EXISTS (SELECT 1 FROM ended) AND {NOT_FLUSHED}"  # noqa: S608
    return (
        f'{ended}INSERT INTO {TABLE} (subject, "window", start, requests, tokens, '  # noqa: S608
        "micro_usd, unpriced, last_at, epoch, turns_reserved_now, tokens_reserved_now, "
        "micro_usd_reserved_now, "
        "turns_reserved_before, tokens_reserved_before, micro_usd_reserved_before) "
        "SELECT charges.*, 0, 0, 0 "
        f"FROM (VALUES {_placeholders(rows, 12)}) AS charges WHERE {condition} "
        'ON CONFLICT (subject, "window", start) DO UPDATE SET '
        f"{added}, {returned}, last_at = excluded.last_at"
    )
