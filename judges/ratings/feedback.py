"""Users' feedback: at most one per user and turn."""

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
    """A score or a thumb, and a comment."""

    score: int | None = None
    """From 0 to 10."""
    thumb: Thumb | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class FeedbackSummary:
    """Feedback on one agent."""

    agent: str
    scores: int
    mean: float | None
    """Mean of the scores; None if there are none."""
    up: int
    down: int
    comments: int


def save_feedback(user_id: UserId, turn_id: TurnId, rating: FeedbackInput) -> Feedback:
    """Store feedback on a reply; raises `MessageUnknown` without such a reply."""
    with transaction.atomic():
        # Locks the user, so that a concurrent erasure also deletes this row.
        reply = turn_lookup.find_reply(user_id, turn_id, is_locked=True)
        if reply is None:
            raise MessageUnknown(param="message_id")
        return _store(
            user_id,
            turn_id,
            rating,
            agent=reply.agent,
            experiment=_experiment_of(turn_id),
        )


def _store(
    user_id: UserId,
    turn_id: TurnId,
    rating: FeedbackInput,
    *,
    agent: str,
    experiment: str,
) -> Feedback:
    """Insert or replace a user's feedback on a turn."""
    now = datetime.now(UTC)
    fields: Mapping[str, Any] = {
        "score": rating.score,
        "thumb": rating.thumb,
        "comment": rating.comment,
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
    """Return the experiment of a turn, if turns are recorded."""
    names = Turn.objects.filter(pk=turn_id).values_list("experiment", flat=True)
    return names.first() or ""


def get_feedback(user_id: UserId, turn_id: TurnId) -> Feedback:
    """Return a user's feedback on a reply; raises `FeedbackUnknown`."""
    row = find(user_id, turn_id)
    if row is None:
        raise FeedbackUnknown
    return row


def find(user_id: UserId, turn_id: TurnId) -> Feedback | None:
    """Return a user's feedback on a turn, or None."""
    return Feedback.objects.filter(user_id=user_id, turn_id=turn_id).first()


def delete_feedback(user_id: UserId, turn_id: TurnId) -> None:
    """Delete a user's feedback on a reply; raises `FeedbackUnknown`."""
    rows = Feedback.objects.filter(user_id=user_id, turn_id=turn_id)
    if not rows.delete()[0]:
        raise FeedbackUnknown


def summarize_feedback(
    *,
    agent: str | None = None,
    agents: Collection[str] | None = None,
    experiment: str | None = None,
    since: datetime | None = None,
) -> list[FeedbackSummary]:
    """Return the feedback on agents, by agent name."""
    filters = {
        "agent": agent,
        "agent__in": agents,
        "experiment": experiment,
        "created_at__gte": since,
    }
    rows = (
        Feedback.objects.filter(
            **{name: value for name, value in filters.items() if value is not None}
        )
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
    """Return the comments on agents since then, newest first."""
    rows = Feedback.objects.filter(agent__in=agents, created_at__gte=since)
    commented = rows.exclude(comment="")
    return list(commented.order_by("-created_at", "id")[:limit])
