"""What people say of replies: one word of each user on each turn of theirs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from django.db import transaction
from django.db.models import Avg, Count, Q

from core.ids import TurnId, UserId
from judges.errors import FeedbackUnknown, MessageUnknown
from judges.models import Feedback
from memory.transcript import turn_lookup
from telemetry.models import Turn

Thumb = Literal["up", "down"]
MAX_COMMENT_LENGTH = 4_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class FeedbackInput:
    """What somebody says: a score or a thumb, and why."""

    score: int | None = None
    """From 0 to 10."""
    thumb: Thumb | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class FeedbackSummary:
    """What people say of one agent."""

    agent: str
    scores: int
    mean: float | None
    """Of the scores; None where there are none."""
    up: int
    down: int
    comments: int


def save_feedback(user_id: UserId, turn_id: TurnId, said: FeedbackInput) -> Feedback:
    """Keep what a user says of a reply; raises `MessageUnknown` if they got none."""
    with transaction.atomic():
        # Who erases the user waits, so that nothing is left of them by this.
        place = turn_lookup.find_reply(user_id, turn_id, is_locked=True)
        if place is None:
            raise MessageUnknown(param="message_id")
        return _put(
            user_id,
            turn_id,
            said,
            agent=place.agent,
            experiment=_experiment_of(turn_id),
        )


def _put(
    user_id: UserId,
    turn_id: TurnId,
    said: FeedbackInput,
    *,
    agent: str,
    experiment: str,
) -> Feedback:
    """Keep what a user says of a turn, in place of what they said of it before."""
    now = datetime.now(UTC)
    fields: Mapping[str, Any] = {
        "score": said.score,
        "thumb": said.thumb,
        "comment": said.comment,
        "updated_at": now,
    }
    row, _ = Feedback.objects.update_or_create(
        user_id=user_id,
        turn_id=turn_id,
        defaults=fields,
        create_defaults={
            **fields,
            "agent": agent,
            "experiment": experiment,
            "created_at": now,
        },
    )
    return row


def _experiment_of(turn_id: TurnId) -> str:
    """Return what chose the agent, where turns are recorded."""
    found = Turn.objects.filter(pk=turn_id).values_list("experiment", flat=True)
    return found.first() or ""


def get_feedback(user_id: UserId, turn_id: TurnId) -> Feedback:
    """Return what a user said of a reply; raises `FeedbackUnknown`."""
    row = find(user_id, turn_id)
    if row is None:
        raise FeedbackUnknown
    return row


def find(user_id: UserId, turn_id: TurnId) -> Feedback | None:
    """Return what a user said of a turn, or None."""
    return Feedback.objects.filter(user_id=user_id, turn_id=turn_id).first()


def delete_feedback(user_id: UserId, turn_id: TurnId) -> None:
    """Delete what a user said of a reply; raises `FeedbackUnknown`."""
    found = Feedback.objects.filter(user_id=user_id, turn_id=turn_id)
    if not found.delete()[0]:
        raise FeedbackUnknown


def summarize_feedback(
    *,
    agent: str | None = None,
    agents: Collection[str] | None = None,
    experiment: str | None = None,
    since: datetime | None = None,
) -> list[FeedbackSummary]:
    """Return what people say of agents, by the agents' names."""
    given = (
        *(("agent", agent), ("agent__in", agents)),
        *(("experiment", experiment), ("created_at__gte", since)),
    )
    wanted = {name: value for name, value in given if value is not None}
    rows = (
        Feedback.objects.filter(**wanted)
        .values("agent")
        .annotate(
            scores=Count("score"),
            mean=Avg("score"),
            up=Count("id", filter=Q(thumb="up")),
            down=Count("id", filter=Q(thumb="down")),
            comments=Count("id", filter=~Q(comment="")),
        )
        .order_by("agent")
    )
    return [FeedbackSummary(**row) for row in rows]


def list_comments(
    agents: Collection[str], *, since: datetime, limit: int
) -> list[Feedback]:
    """Return what people wrote of agents since then, the newest first."""
    found = Feedback.objects.filter(agent__in=agents, created_at__gte=since)
    rows = found.exclude(comment="").order_by("-created_at", "id")
    return list(rows[:limit])
