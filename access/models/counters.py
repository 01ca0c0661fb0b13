"""Usage counters: the usage of subjects, and the reservations of running turns.

A turn reserves an estimate before it calls its model, and replaces it by its real usage
when it ends: two statements, however many limits apply. Each is atomic, so parallel
turns cannot exceed a limit together. `access.models.reservations` says who holds what.
"""

import uuid
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connection, models
from django.db.models import Q

from access.limits.time_windows import CALENDAR_MONTH, DAY, EVER, MINUTE
from access.limits.usage_counters import (
    Charge,
    CounterKey,
    CounterUpdate,
    CounterValues,
    Reservation,
    updates_at_end,
)
from access.models import counter_sql
from access.users.caller import VerifiedToken

EPOCH_SECONDS = 600
"""A reservation lasts for one to two of these."""

RETENTION_MONTHS = 25
"""How many calendar months of usage are stored, for reports."""


class UsageCounterQuerySet(models.QuerySet["UsageCounter"]):
    def expired(self, now: datetime) -> "UsageCounterQuerySet":
        """Return the counters of windows that have ended."""
        at = int(now.timestamp())
        short = Q(window__gte=MINUTE, start__lt=at - 31 * DAY)
        short |= Q(window__range=(MINUTE, DAY), start__lt=at - 2 * DAY)
        old = Q(window=CALENDAR_MONTH, start__lt=at - RETENTION_MONTHS * 31 * DAY)
        # Agents and users have no budget for all time: their counter holds running
        # turns.
        idle = Q(window=EVER, last_at__lt=at - 2 * DAY)
        return self.filter(short | old | idle & ~Q(subject__startswith="token:"))


UsageCounterBaseManager = models.Manager.from_queryset(UsageCounterQuerySet)


class UsageCounterManager(UsageCounterBaseManager["UsageCounter"]):
    """Counts, reserves and settles usage.

    These methods of a QuerySet would create one that they do not use, for 15 µs.
    """

    def reserve(
        self,
        keys: Collection[CounterKey],
        token: VerifiedToken | None,
        *,
        tokens: int,
        micro_usd: int,
        now: int,
    ) -> dict[CounterKey, CounterValues]:
        """Count a request and reserve its estimate; return the values of each counter.

        If the token is invalid or differs from the cached one, nothing is changed or
        returned. Call it in a transaction: the caller rolls back when a limit is
        exceeded.
        """
        params: list[Any] = [now, now // EPOCH_SECONDS, tokens, micro_usd]
        # All turns lock counters in the same order, which prevents deadlocks.
        for key in sorted(keys):
            params += counter_sql.key_params(key)
        if token is not None:
            params += counter_sql.guard_params(token, datetime.fromtimestamp(now, UTC))
        with connection.cursor() as cursor:
            cursor.execute(
                counter_sql.reserve_sql(len(keys), token is not None), params
            )
            return counter_sql.read_values(cursor)

    def read(
        self, keys: Collection[CounterKey], *, now: int
    ) -> dict[CounterKey, CounterValues]:
        """Return the values of counters without locking them."""
        epoch = now // EPOCH_SECONDS
        params: list[Any] = [epoch, epoch] * len(counter_sql.RESERVED_COLUMNS)
        for key in keys:
            params += counter_sql.key_params(key)
        with connection.cursor() as cursor:
            cursor.execute(counter_sql.read_sql(len(keys)), params)
            found = counter_sql.read_values(cursor)
        return {key: found.get(key, CounterValues(epoch)) for key in keys}

    def create_missing(self, keys: Collection[CounterKey], *, now: int) -> None:
        """Create the rows of counters that have none yet."""
        self.bulk_create(
            (
                UsageCounter(
                    subject=key.subject,
                    window=key.window.length,
                    start=key.window.start,
                    last_at=now,
                )
                for key in sorted(keys)
            ),
            ignore_conflicts=True,
        )

    def settle(
        self,
        keys: Sequence[CounterKey],
        reservation: Reservation | None,
        charge: Charge,
        *,
        now: int,
    ) -> None:
        """Charge a turn to its counters, and release its reservation.

        `keys` are counters to charge in addition to the reservation's.
        """
        amounts = reservation and (reservation.tokens, reservation.micro_usd)
        self.update_at_end(
            updates_at_end(keys, reservation), amounts or (0, 0), charge, now=now
        )

    def update_at_end(
        self,
        updates: Sequence[CounterUpdate],
        reserved: tuple[int, int],
        charge: Charge,
        *,
        now: int,
        reservation_id: uuid.UUID | None = None,
    ) -> None:
        """Charge counters, and release the reserved tokens and micro-dollars.

        With the id of a reservation, PostgreSQL deletes its row in the same statement,
        and changes nothing if there is none.
        """
        if not updates:
            return
        params: list[Any] = [] if reservation_id is None else [reservation_id]
        for key, epoch, requests in sorted(updates, key=lambda update: update.key):
            params += (
                *counter_sql.key_params(key),
                requests,
                charge.tokens,
                charge.micro_usd,
                0 if charge.is_priced else 1,
                now,
                epoch or 0,
                *((0, 0, 0) if epoch is None else (1, *reserved)),
            )
        statement = counter_sql.settle_sql(len(updates), reservation_id is not None)
        with connection.cursor() as cursor:
            cursor.execute(statement, params)


class UsageCounter(models.Model):
    """The usage of a subject within a window, and its reservations for turns.

    `epoch` numbers intervals of time. A reservation expires at the end of the epoch
    after its own, so a killed process blocks no usage for long.
    """

    subject = models.CharField(max_length=300)
    """`user:ID`, `token:ID` or `agent:NAME`."""
    window = models.IntegerField()
    """Its length in seconds; 0 is all time, 1 the calendar month."""
    start = models.BigIntegerField()
    """Seconds since 1970; 0 for all time."""
    requests = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    micro_usd = models.BigIntegerField(default=0)
    unpriced = models.BigIntegerField(default=0)
    """Turns of unknown cost, which `micro_usd` does not include."""
    last_at = models.BigIntegerField()
    """When it was last used, in seconds since 1970."""
    epoch = models.BigIntegerField(default=0)
    turns_reserved_now = models.IntegerField(default=0)
    turns_reserved_before = models.IntegerField(default=0)
    tokens_reserved_now = models.BigIntegerField(default=0)
    tokens_reserved_before = models.BigIntegerField(default=0)
    micro_usd_reserved_now = models.BigIntegerField(default=0)
    micro_usd_reserved_before = models.BigIntegerField(default=0)

    objects = UsageCounterManager()

    class Meta:
        constraints = [
            # Not the primary key, because Django's admin has no pages for such keys.
            models.UniqueConstraint(
                fields=["subject", "window", "start"], name="access_usagecounter_key"
            )
        ]
        indexes = [
            models.Index(fields=["window", "start"], name="access_usagecounter_old")
        ]

    def __str__(self) -> str:
        return f"{self.subject} in {self.window} s from {self.start}"
