"""The model of the server's users, derived from what is stored about them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import ProgrammingError, connection, models
from django.db.models import Count, Max, Min, Sum

from core.ids import UserId
from memory.models.facts import Fact
from memory.models.owners import Owner
from memory.models.threads import Thread
from telemetry.models import Turn, TurnTotals

VIEW = "memory_end_user"
SOURCES = {"memory_thread", "memory_owner", "telemetry_turn"}
SELECT_SQL = """
    SELECT user_id AS id, MIN(first_at) AS first_seen_at, MAX(last_at) AS active_at,
        CAST(SUM(threads) AS bigint) AS threads,
        CAST(SUM(messages) AS bigint) AS messages
    FROM (
        SELECT user_id, created_at AS first_at, updated_at AS last_at, 1 AS threads,
            length AS messages
        FROM memory_thread
        UNION ALL
        SELECT user_id, created_at, created_at, 0, 0 FROM memory_owner
        UNION ALL
        SELECT user_id, started_at, started_at, 0, 0
        FROM (
            SELECT user_id, started_at FROM telemetry_turn WHERE outcome = 'error'
            ORDER BY started_at DESC, id DESC LIMIT 500
        ) AS failed_turn
    ) AS source
    GROUP BY user_id
"""
"""Tables with few rows for each user. A view, because turns would get slower if they
also wrote a row of their user."""


def drop_view(*, plan: Sequence[Any], **_signal: Any) -> None:
    """Remove the view, so that a migration may change the tables that it reads.

    Only on SQLite, which copies them: other servers may read PostgreSQL's meanwhile.
    """
    if plan and connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"DROP VIEW IF EXISTS {VIEW}")


def create_view(*, plan: Sequence[Any] = (), **_signal: Any) -> None:
    """Create the view, if all tables that it reads exist.

    A role that may not change tables needs not, if no migration did.
    """
    is_sqlite = connection.vendor == "sqlite"
    create = "CREATE VIEW IF NOT EXISTS" if is_sqlite else "CREATE OR REPLACE VIEW"
    with connection.cursor() as cursor:
        if not set(connection.introspection.table_names(cursor)) >= SOURCES:
            return
        try:
            cursor.execute(f"{create} {VIEW} AS {SELECT_SQL}")
        except ProgrammingError:
            if plan:
                raise


class EndUserQuerySet(models.QuerySet["EndUser"]):
    def load_figures(self, users: Sequence["EndUser"], since: datetime) -> None:
        """Set the number of active facts, and the totals of turns since then."""
        ids = [user.user_id for user in users]
        facts = count_facts(ids)
        turns = Turn.objects.filter(user_id__in=ids, started_at__gte=since)
        totals = dict(turns.totals_by("user"))
        for user in users:
            user.facts = facts[user.user_id].get("active", 0)
            user.set_totals(totals.get(user.pk, TurnTotals()))


class EndUser(models.Model):
    """A user with messages, with facts, or with a recent failed turn."""

    id = models.UUIDField(primary_key=True)
    first_seen_at = models.DateTimeField()
    active_at = models.DateTimeField()
    """The last message, the first fact, or the last failed turn."""
    threads = models.BigIntegerField(default=0)
    messages = models.BigIntegerField(default=0)

    name: str | None
    """The name, if a token or the configuration has it."""
    facts: int | dict[str, int]
    turns: int
    spent_micro_usd: int
    unpriced_turns: int
    time_zone: str
    recall: bool
    learning: bool
    limits: Sequence[Any]
    scores: Sequence[Any]
    """The mean scores of the replies."""

    objects = EndUserQuerySet.as_manager()

    class Meta:
        managed = False
        db_table = VIEW
        verbose_name = "user"

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def user_id(self) -> UserId:
        """The key, as other tables call it."""
        return UserId(self.pk)

    def set_totals(self, totals: TurnTotals) -> None:
        self.turns = totals.turns
        self.spent_micro_usd = totals.micro_usd
        self.unpriced_turns = totals.unpriced

    def load_summary(self) -> bool:
        """Set the counts of its rows, the totals of its turns, and when it was seen.

        Returns whether anything is stored about the user.
        """
        # Not from the view: for one user, SQLite would read the threads of all.
        threads = Thread.objects.filter(user_id=self.pk).aggregate(
            first=Min("created_at"),
            last=Max("updated_at"),
            count=Count("id"),
            messages=Sum("length"),
        )
        turns = Turn.objects.filter(user_id=self.pk)
        totals = dict(turns.totals_by("user")).get(self.pk, TurnTotals())
        # Apart from the totals: these are the ends of an index.
        times = turns.order_by("started_at").values_list("started_at", flat=True)
        first_turn_at, last_turn_at = times.first(), times.last()
        owner = Owner.objects.filter(user_id=self.pk).first()
        since = None if owner is None else owner.created_at
        self.threads, self.messages = threads["count"], threads["messages"] or 0
        self.facts = count_facts([self.user_id])[self.user_id]
        self.time_zone = "" if owner is None else owner.time_zone
        self.recall = owner is None or owner.is_recall_on
        self.learning = owner is None or owner.is_learning_on
        self.set_totals(totals)
        first = [at for at in (threads["first"], since, first_turn_at) if at]
        last = [at for at in (threads["last"], since, last_turn_at) if at]
        if not first or not last:
            return False
        self.first_seen_at, self.active_at = min(first), max(last)
        return True


def count_facts(users: Sequence[UserId]) -> dict[UserId, dict[str, int]]:
    """Return the number of facts per user and status, from an index only."""
    counts: dict[UserId, dict[str, int]] = {user: {} for user in users}
    rows = Fact.objects.filter(user_id__in=users).values_list("user_id", "status")
    for user_id, status, count in rows.annotate(count=Count("*")).order_by():
        counts[UserId(user_id)][status] = count
    return counts
