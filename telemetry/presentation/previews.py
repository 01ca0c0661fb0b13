"""Parts of turns, for views of many turns at once."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Substr

from core.ids import UserId
from telemetry.models import Outcome, ToolCall, Turn
from telemetry.storage import turn_store
from telemetry.types import TurnSummary

MAX_TEXT_LENGTH = 4_000
"""Maximum characters of a text; the turn's own page has the rest."""
MAX_FAILED_TURNS = 50


@dataclass(frozen=True, slots=True)
class TopLevelCall:
    """A tool call of the agent itself."""

    turn_id: UUID
    position: int
    name: str
    kind: str
    target: str
    seconds: float | None
    arguments: str
    result: str | None
    error: str | None


def load_summaries(
    user_id: UserId, turn_ids: Collection[UUID]
) -> dict[UUID, TurnSummary]:
    """Return the summaries of these turns of a user, by turn id."""
    turns = Turn.objects.filter(pk__in=turn_ids, user_id=user_id)
    return {turn.turn_id: turn for turn in turn_store.load_summaries(turns)}


def load_top_level_calls(turn_ids: Collection[UUID]) -> list[TopLevelCall]:
    """Return the agents' own tool calls in order, with truncated texts."""
    calls = ToolCall.objects.filter(turn__in=turn_ids, depth=0)
    rows = calls.order_by("turn", "position").values_list(
        "turn_id",
        "position",
        "name",
        "kind",
        "target",
        "seconds",
        Substr("arguments", 1, MAX_TEXT_LENGTH + 1),
        Substr("result", 1, MAX_TEXT_LENGTH + 1),
        Substr("error", 1, MAX_TEXT_LENGTH + 1),
    )
    return [TopLevelCall(*row) for row in rows]


def load_failed_turns(
    user_id: UserId,
    thread: str | None,
    since: datetime | None,
    until: datetime | None,
) -> list[TurnSummary]:
    """Return the newest failed turns of a user in a period, in one thread or all."""
    condition = Q() if thread is None else Q(thread=thread)
    if since is not None:
        condition &= Q(started_at__gte=since)
    if until is not None:
        condition &= Q(started_at__lt=until)
    turns = Turn.objects.filter(
        condition,
        user_id=user_id,
        outcome=Outcome.ERROR,
        origin__in=turn_store.USER_ORIGINS,
    )
    return turn_store.load_summaries(
        turns.order_by("-started_at", "-id")[:MAX_FAILED_TURNS]
    )
