"""Recorded turns."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Self
from uuid import UUID

import orjson
from django.db import models
from django.db.models import Count, Exists, OuterRef, Q
from django.utils.module_loading import import_string

from core.events import Usage
from core.ids import TurnId
from core.trace import Call
from database import keyset
from telemetry.models.calls import ModelCall
from telemetry.models.choices import (
    USER_ORIGINS,
    Origin,
    Outcome,
    choice_constraint,
    retention_start,
)
from telemetry.models.turn_totals import (
    AGGREGATES,
    COST_AGGREGATES,
    KEYS,
    TurnTotals,
    sum_groups,
)
from telemetry.statistics.time_buckets import JsonList
from telemetry.types import Diagnostics

Cursor = tuple[datetime, UUID]
"""The `started_at` and the id of a turn."""
MAX_CALLS_OF_RARE_MODEL = 2_000
"""Calls of a model whose turns are found by their ids."""


class VariantCounts(NamedTuple):
    """The recorded turns of one variant; those of synthetic users are not recorded."""

    served: int = 0
    """Replies to users."""
    shadow_runs: int = 0


class TurnQuerySet(models.QuerySet["Turn"]):
    def started_by_users(self) -> Self:
        """Return the turns that users started, and may see."""
        return self.filter(origin__in=USER_ORIGINS)

    def without_shadow_runs(self) -> Self:
        """Return the turns that someone waited for."""
        return self.exclude(origin=Origin.SHADOW)

    def failed(self) -> Self:
        """Return the turns that ended with an error."""
        return self.filter(outcome=Outcome.ERROR)

    def newest_first(self) -> Self:
        """Return the turns in the order of lists."""
        return self.order_by("-started_at", "-id")

    def before(self, cursor: Cursor | None) -> Self:
        """Return the turns that a list shows after the turn at a cursor."""
        return self.filter(keyset.later_rows("started_at", cursor))

    def after(self, cursor: Cursor | None) -> Self:
        """Return the turns after the one at a cursor, oldest first."""
        later = keyset.later_rows("started_at", cursor, is_descending=False)
        return self.filter(later).order_by("started_at", "id")

    def cursor_of(self, turn_id: TurnId) -> Cursor | None:
        """Return the cursor of a turn, if it is one of these."""
        return self.filter(pk=turn_id).values_list("started_at", "id").first()

    def read_page(self, limit: int) -> tuple[list["Turn"], bool]:
        """Return the first turns, and whether there are more."""
        turns = list(self[: limit + 1])
        return turns[:limit], len(turns) > limit

    def totals_by(
        self, *keys: str, names: Collection[str] = COST_AGGREGATES
    ) -> list[tuple[Any, ...]]:
        """Return the values of the keys (see `KEYS`) and the totals of each group.

        `names` are the totals to compute. One query, of an index alone: see those of
        `Turn`.
        """
        sums = {name: AGGREGATES[name] for name in names}
        rows = sum_groups(self, {key: KEYS[key] for key in keys}, sums)
        end = len(keys)
        return [
            (*row[:end], TurnTotals(**dict(zip(sums, row[end:], strict=True))))
            for row in rows
        ]

    def durations_by(self, *keys: str) -> Iterator[tuple[Any, ...]]:
        """Yield the values of the keys and the seconds of all complete replies.

        As one text for each group, because rows of single numbers take long to read.
        """
        complete = self.filter(outcome=Outcome.OK)
        sums = {"seconds": JsonList("seconds")}
        for row in sum_groups(complete, {key: KEYS[key] for key in keys}, sums):
            yield *row[:-1], orjson.loads(row[-1])

    def count_users_by_hour(self) -> Any:
        """Return each hour and its number of users."""
        groups = self.order_by().values(by_hour=KEYS["hour"])
        users = groups.annotate(users=Count("user_id", distinct=True))
        return users.values_list("by_hour", "users")

    def count_variants(self) -> dict[str, dict[str, VariantCounts]]:
        """Return the turns of variants, by experiment and agent, by an index."""
        is_shadow_run = Q(origin=Origin.SHADOW)
        # Counts a column of the index, so that rows of turns are not read.
        rows = (
            self.order_by()
            .values_list("experiment", "agent")
            .annotate(
                served=Count("agent", filter=~is_shadow_run),
                shadow_runs=Count("agent", filter=is_shadow_run),
            )
        )
        counts: dict[str, dict[str, VariantCounts]] = defaultdict(dict)
        for experiment, agent, *numbers in rows:
            counts[str(experiment)][agent] = VariantCounts(*numbers)
        return counts

    def with_model(self, provider: str, model: str) -> Self:
        """Return the turns with a call of a model.

        The turns of a rare model are found by its calls. Those of a frequent one are
        found by reading turns in order, from the model's newest call on.
        """
        calls = ModelCall.objects.filter(provider=provider, model=model)
        newest = calls.order_by("-started_at").values_list("turn_id", "started_at")
        found = list(newest[: MAX_CALLS_OF_RARE_MODEL + 1])
        if len(found) <= MAX_CALLS_OF_RARE_MODEL:
            return self.filter(pk__in={turn_id for turn_id, _ in found})
        is_called = Exists(calls.filter(turn_id=OuterRef("pk")))
        return self.filter(is_called, started_at__lte=found[0][1])

    def prepare_deletion(self, now: datetime) -> None:
        """Total the hours of the rows to delete; raises an error if that fails."""
        # By its name, because it uses the other models.
        import_string("telemetry.statistics.hourly_rollup.seal_hours")(now)

    def expired(self, now: datetime) -> "TurnQuerySet":
        """Return the turns that began more than `keep_days` ago, oldest first."""
        before = retention_start(now)
        if before is None:
            return self.none()
        return self.filter(started_at__lt=before).order_by("started_at", "id")


class Turn(models.Model):
    """One request to an agent, and how it ended."""

    id = models.UUIDField(primary_key=True)
    user_id = models.UUIDField()
    thread = models.CharField(max_length=512, blank=True, default="")
    agent = models.CharField(max_length=255)
    experiment = models.CharField(max_length=255, null=True)  # noqa: DJ001
    """The experiment that selected the agent; null if none."""
    origin = models.CharField(max_length=16, choices=Origin, default=Origin.CHAT)
    user_message = models.TextField(blank=True, default="")
    is_streamed = models.BooleanField()
    started_at = models.DateTimeField()
    seconds = models.FloatField()
    outcome = models.CharField(max_length=16, choices=Outcome)
    finish_reason = models.CharField(max_length=32, blank=True, default="")
    error = models.TextField(null=True)  # noqa: DJ001  NULL is not ""
    request_id = models.CharField(max_length=128, blank=True, default="")
    token_id = models.UUIDField(null=True)
    """The API token of the request; null if none."""
    # Sum of all its model calls.
    input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    cache_read_tokens = models.BigIntegerField()
    cache_write_tokens = models.BigIntegerField()
    reasoning_tokens = models.BigIntegerField()
    cost_micro_usd = models.BigIntegerField(null=True)
    """Null if unknown, which is not 0."""
    known_cost_micro_usd = models.BigIntegerField(db_default=0)
    """The known part of the cost: less than the whole if a call has no price."""
    model_calls = models.IntegerField()
    """Number of model calls at every depth."""
    tool_calls = models.IntegerField()
    recalled = models.TextField(blank=True, default="", db_default="")
    """Public ids of the facts in the prompt, separated by spaces."""
    diagnostics_json = models.TextField(blank=True, default="", db_default="")

    calls: Sequence[Call]
    """The tree of its calls, if it was loaded with them."""

    objects = TurnQuerySet.as_manager()

    class Meta:
        constraints = [
            choice_constraint(Outcome, "outcome", "telemetry_turn_outcome"),
            choice_constraint(Origin, "origin", "telemetry_turn_origin"),
        ]
        indexes = [
            # Newest first, read backwards; the id breaks ties. The other columns make
            # sums over many turns index-only: rows of turns are long, because they
            # contain the messages.
            models.Index(
                fields=[
                    "started_at",
                    "id",
                    "agent",
                    "user_id",
                    "token_id",
                    "origin",
                    "outcome",
                    "seconds",
                    "model_calls",
                    "input_tokens",
                    "output_tokens",
                    "cost_micro_usd",
                    "known_cost_micro_usd",
                ],
                name="telemetry_turn_at",
            ),
            # A user's turns, and their sums from the index alone.
            models.Index(
                fields=[
                    "user_id",
                    "started_at",
                    "id",
                    "outcome",
                    "model_calls",
                    "input_tokens",
                    "output_tokens",
                    "cost_micro_usd",
                    "known_cost_micro_usd",
                ],
                name="telemetry_turn_of_user",
            ),
            models.Index(
                fields=["started_at", "id"],
                condition=Q(outcome="error"),
                name="telemetry_turn_failed",
            ),
            # The shares of an experiment's variants, from the index alone.
            models.Index(
                fields=["experiment", "agent", "origin", "started_at"],
                condition=Q(experiment__isnull=False),
                name="telemetry_turn_experiment",
            ),
            # The filters of the studio's list, in its order.
            models.Index(
                fields=["agent", "started_at", "id"], name="telemetry_turn_of_agent"
            ),
            models.Index(
                fields=["experiment", "started_at", "id"],
                condition=Q(experiment__isnull=False),
                name="telemetry_turn_variants",
            ),
            models.Index(
                fields=["token_id", "started_at", "id"],
                condition=Q(token_id__isnull=False),
                name="telemetry_turn_of_token",
            ),
            models.Index(
                fields=["started_at", "id"],
                condition=Q(outcome="cancelled"),
                name="telemetry_turn_cancelled",
            ),
            models.Index(
                fields=["origin", "started_at", "id"],
                condition=~Q(origin="chat"),
                name="telemetry_turn_origins",
            ),
        ]

    def __str__(self) -> str:
        return f"turn {self.pk} ({self.outcome})"

    @property
    def turn_id(self) -> TurnId:
        """The key, as other tables and records call it."""
        return TurnId(self.pk)

    @property
    def variant(self) -> str | None:
        """The agent, if an experiment chose it."""
        return self.agent if self.experiment else None

    @property
    def usage(self) -> Usage:
        """The tokens of all its model calls."""
        return Usage(
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.reasoning_tokens,
        )

    @property
    def diagnostics(self) -> Diagnostics | None:
        """The contents of the prompt, and the durations of parts; None for turns of
        earlier versions."""
        stored = self.diagnostics_json
        return Diagnostics(**orjson.loads(stored)) if stored else None

    @property
    def recalled_fact_ids(self) -> list[str]:
        """Public ids of the facts in the prompt."""
        return self.recalled.split()
