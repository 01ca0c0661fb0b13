"""What people say of replies: one word of each user on each turn of theirs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import Avg, Count, Q

from core.ids import UserId
from judges.models import Feedback

Thumb = Literal["up", "down"]
MAX_COMMENT_LENGTH = 4_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody says: a score or a thumb, and why."""

    score: int | None = None
    """From 0 to 10."""
    thumb: Thumb | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What people say of one agent."""

    agent: str
    scores: int
    mean: float | None
    """Of the scores; None where there are none."""
    up: int
    down: int
    comments: int


def put(
    user_id: UserId, turn_id: UUID, said: Said, *, agent: str, experiment: str = ""
) -> Feedback:
    """Keep what a user says of a turn, in place of what they said of it before.

    In the caller's transaction, in which the turn surely is the user's.
    """
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


def get(user_id: UserId, turn_id: UUID) -> Feedback | None:
    """Return what a user said of a turn, or None."""
    return Feedback.objects.filter(user_id=user_id, turn_id=turn_id).first()


def delete(user_id: UserId, turn_id: UUID) -> bool:
    """Take back what a user said of a turn; return whether there was anything."""
    return bool(Feedback.objects.filter(user_id=user_id, turn_id=turn_id).delete()[0])


def opinions(
    *,
    agent: str | None = None,
    agents: Collection[str] | None = None,
    experiment: str | None = None,
    since: datetime | None = None,
) -> list[Opinion]:
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
    return [Opinion(**row) for row in rows]


def comments(agents: Collection[str], *, since: datetime, limit: int) -> list[Feedback]:
    """Return what people wrote of agents since then, the newest first."""
    found = Feedback.objects.filter(agent__in=agents, created_at__gte=since)
    rows = found.exclude(comment="").order_by("-created_at", "id")
    return list(rows[:limit])
