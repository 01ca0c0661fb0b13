"""Reservations of running turns: which process holds what on which counters.

The row of a reservation is what is left to do on its counters when the turn is over.
Until then that is to release the reservation. On PostgreSQL the transaction that
stores the turn writes the turn's charge into the row, because it would otherwise lock
counters that many turns share until its commit is flushed. Right after, one statement
deletes the row and updates the counters, and is not flushed either. Only the statement
that deletes the row does so, which makes it happen once, whatever fails in between.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from access.limits.time_windows import TimeWindow
from access.limits.usage_counters import (
    NO_CHARGE,
    Ceilings,
    Charge,
    CounterKey,
    CounterUpdate,
    CounterValues,
    Reservation,
    updates_at_end,
)
from access.models import counter_sql
from access.models.counters import EPOCH_SECONDS, UsageCounter
from access.users.caller import VerifiedToken
from core.runtime import shared_clock
from database import running_processes
from database.models import RunningProcess
from database.running_processes import STATE

TABLE = counter_sql.RESERVATIONS


GRACE = timedelta(seconds=running_processes.GONE_AFTER_SECONDS)
BATCH_SIZE = 500


class UsageReservationQuerySet(models.QuerySet["UsageReservation"]):
    def abandoned(self) -> "UsageReservationQuerySet":
        """Return those of processes that are gone, and charges left in their rows.

        A process without a row has ended, or has not sent its first heartbeat yet.
        """
        processes = RunningProcess.objects.values("id")
        gone = processes.exclude(id__in=RunningProcess.objects.running().values("id"))
        is_old = Q(reserved_at__lt=Now() - GRACE)
        is_gone = Q(process__in=gone) | is_old & ~Q(process__in=processes)
        is_gone &= ~Q(process=running_processes.own_id())
        return self.filter(is_gone | Q(settled_at__lt=Now() - GRACE))


UsageReservationBaseManager = models.Manager.from_queryset(UsageReservationQuerySet)


class UsageReservationManager(UsageReservationBaseManager["UsageReservation"]):
    """Raw SQL, because limited turns call it: 30 µs a statement, 200 by the ORM."""

    def reserve_if_free(
        self,
        reservation_id: uuid.UUID,
        ceilings: Mapping[CounterKey, Ceilings],
        token: VerifiedToken | None,
        *,
        tokens: int,
        micro_usd: int,
        now: int,
    ) -> dict[CounterKey, CounterValues]:
        """Reserve and record it in one statement; return the values of each counter.

        Nothing is changed or returned if a counter exceeds its ceilings or has no row
        yet, or if the token is not current. Only PostgreSQL can do it.
        """
        params: list[Any] = [now, now // EPOCH_SECONDS, tokens, micro_usd]
        for key, maxima in ceilings.items():
            params += (*counter_sql.key_params(key), *maxima)
        if token is not None:
            params += counter_sql.guard_params(token, datetime.fromtimestamp(now, UTC))
        params += (reservation_id, running_processes.own_id())
        statement = counter_sql.reserve_if_free_sql(len(ceilings), token is not None)
        with connection.cursor() as cursor:
            cursor.execute(statement, params)
            return counter_sql.read_values(cursor)

    def record(self, reservation: Reservation) -> None:
        """Store that this process holds a reservation."""
        updates = updates_at_end((), reservation)
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {TABLE} (id, process, counters, tokens_reserved, "  # noqa: S608
                "micro_usd_reserved) VALUES (%s, %s, %s, %s, %s)",
                (
                    counter_sql.uuid_param(reservation.id),
                    counter_sql.uuid_param(running_processes.own_id()),
                    _dump(updates),
                    reservation.tokens,
                    reservation.micro_usd,
                ),
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

        `keys` are counters to charge in addition to the reservation's. In a
        transaction, the charge is certain when that commits.
        """
        updates = updates_at_end(keys, reservation)
        is_shared = any(not key.subject.startswith("user:") for key in keys)
        if counter_sql.has_single_statements() and (is_shared or reservation):
            self._store_charge(updates, reservation, charge, now)
            return
        if reservation is not None and not self._delete(reservation.id):
            # It was released, because this process seemed to be gone.
            updates = _without_release(updates)
        self._update_counters(updates, reservation, charge, now=now)

    def release(self, reservation: Reservation, *, now: int) -> None:
        """Undo a reservation: the request was never started."""
        updates = updates_at_end((), reservation, reserved_requests=-1)
        self.end(reservation.id, updates, reservation, NO_CHARGE, now=now)

    def end(
        self,
        id: uuid.UUID,
        updates: Sequence[CounterUpdate],
        reservation: Reservation | None,
        charge: Charge,
        *,
        now: int,
    ) -> None:
        """Delete the row of a reservation and update its counters.

        If the row does not exist, another process has updated them.
        """
        if counter_sql.has_single_statements():
            self._update_counters(
                updates, reservation, charge, now=now, reservation_id=id
            )
            return
        with transaction.atomic():
            if self._delete(id):
                self._update_counters(updates, reservation, charge, now=now)

    def end_abandoned(self, limit: int = BATCH_SIZE) -> int:
        """Charge and release what processes left that are gone; return how many.

        One transaction for each, because turns wait for the counters that it locks.
        """
        if not STATE.is_steady():
            return 0  # After an outage of the database, all processes seem to be gone.
        rows = self.abandoned().order_by("id").values_list("id", flat=True)
        return sum(map(self._end_if_abandoned, list(rows[:limit])))

    def _end_if_abandoned(self, id: uuid.UUID) -> bool:
        with transaction.atomic():
            # Locked, because a process that seems to be gone may go on.
            rows = self.abandoned().filter(id=id).select_for_update(skip_locked=True)
            if (row := rows.first()) is None:
                return False
            row.end(now=int(shared_clock.now().timestamp()))
        return True

    def _update_counters(
        self,
        updates: Sequence[CounterUpdate],
        reservation: Reservation | None,
        charge: Charge,
        *,
        now: int,
        reservation_id: uuid.UUID | None = None,
    ) -> None:
        reserved = (0, 0)
        if reservation is not None:
            reserved = (reservation.tokens, reservation.micro_usd)
        UsageCounter.objects.update_at_end(
            updates, reserved, charge, now=now, reservation_id=reservation_id
        )

    def _store_charge(
        self,
        updates: Sequence[CounterUpdate],
        reservation: Reservation | None,
        charge: Charge,
        now: int,
    ) -> None:
        """Write a charge into the row of its reservation, and apply it after commit."""
        row_id = uuid.uuid4() if reservation is None else reservation.id
        unpriced = 0 if charge.is_priced else 1
        amounts = (charge.tokens, charge.micro_usd, unpriced)
        with connection.cursor() as cursor:
            if reservation is not None:
                cursor.execute(
                    f"UPDATE {TABLE} SET counters = %s, tokens = %s, micro_usd = %s, "  # noqa: S608
                    "unpriced = %s, settled_at = statement_timestamp() WHERE id = %s",
                    (_dump(updates), *amounts, row_id),
                )
            if reservation is None or cursor.rowcount == 0:
                updates = _without_release(updates)
                cursor.execute(
                    f"INSERT INTO {TABLE} (id, process, counters, tokens, micro_usd, "  # noqa: S608
                    "unpriced, settled_at) VALUES (%s, %s, %s, %s, %s, %s, "
                    "statement_timestamp())",
                    (row_id, running_processes.own_id(), _dump(updates), *amounts),
                )

        def apply() -> None:
            self.end(row_id, updates, reservation, charge, now=now)

        # Robust: the turn is stored, and what remains is done later.
        transaction.on_commit(apply, robust=True)

    def _delete(self, id: uuid.UUID) -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                f"DELETE FROM {TABLE} WHERE id = %s",  # noqa: S608
                (counter_sql.uuid_param(id),),
            )
            return bool(cursor.rowcount)


class UsageReservation(models.Model):
    """The reservation of a running turn, or the charge of one that just ended."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    process = models.UUIDField(db_index=True)
    reserved_at = models.DateTimeField(db_default=Now())
    settled_at = models.DateTimeField(null=True)
    """When the turn ended; null while it runs."""
    counters = models.JSONField()
    """A list of subject, window, start, epoch and requests to add; the epoch is null
    where nothing is reserved."""
    tokens_reserved = models.BigIntegerField(db_default=0)
    micro_usd_reserved = models.BigIntegerField(db_default=0)
    tokens = models.BigIntegerField(db_default=0)
    """The turn's usage, once it ended."""
    micro_usd = models.BigIntegerField(db_default=0)
    unpriced = models.IntegerField(db_default=0)

    objects = UsageReservationManager()

    def __str__(self) -> str:
        return str(self.id)

    @property
    def updates(self) -> list[CounterUpdate]:
        return [
            CounterUpdate(CounterKey(subject, TimeWindow(length, start)), epoch, count)
            for subject, length, start, epoch, count in self.counters
        ]

    def end(self, *, now: int) -> None:
        """Do what is left to do: charge the turn if it ended, and release the rest."""
        reserved = Reservation({}, self.tokens_reserved, self.micro_usd_reserved)
        charge = Charge(self.tokens, self.micro_usd, is_priced=not self.unpriced)
        UsageReservation.objects.end(self.id, self.updates, reserved, charge, now=now)


def _dump(updates: Sequence[CounterUpdate]) -> str:
    return json.dumps(
        [
            (*counter_sql.key_params(update.key), update.epoch, update.requests)
            for update in updates
        ]
    )


def _without_release(updates: Sequence[CounterUpdate]) -> list[CounterUpdate]:
    return [update._replace(epoch=None) for update in updates]
