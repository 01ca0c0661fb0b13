"""Feedback of users."""

import uuid
from datetime import UTC, datetime
from typing import Any, Self

from django.db import models, transaction
from django.db.models import Avg, Count, Q

from config import retention
from core.ids import TurnId, UserId, format_completion_id
from judges.errors import FeedbackUnknown, MessageUnknown
from judges.models.scores import RatingQuerySet
from memory.models import StoredMessage
from telemetry.models import Turn


class FeedbackQuerySet(RatingQuerySet):
    def expired(self, now: datetime) -> Self:
        """Return the feedback past `retention.feedback_days`, oldest first."""
        return retention.older_rows(self, "feedback_days", "created_at", now)

    def rate(
        self,
        user_id: UserId,
        turn_id: TurnId,
        *,
        score: int | None = None,
        thumb: str | None = None,
        comment: str = "",
    ) -> "Feedback":
        """Store feedback on a reply; raises `MessageUnknown` without such a reply.

        It replaces the user's earlier feedback on the reply.
        """
        with transaction.atomic():
            # Locks the user, so that a concurrent erasure also deletes this row.
            reply = StoredMessage.objects.find_reply(user_id, turn_id, is_locked=True)
            if reply is None:
                raise MessageUnknown(param="message_id")
            now = datetime.now(UTC)
            fields = {
                "score": score,
                "thumb": thumb,
                "comment": comment,
                "updated_at": now,
            }
            # Only recorded turns have an experiment.
            experiments = Turn.objects.filter(pk=turn_id).values_list("experiment")
            (experiment,) = experiments.first() or (None,)
            origin = {"agent": reply.agent, "experiment": experiment or ""}
            row: Feedback
            row, _ = self.update_or_create(
                user_id=user_id,
                turn_id=turn_id,
                defaults=fields,
                create_defaults={**fields, **origin, "created_at": now},
            )
        return row

    def get_known(self, user_id: UserId, turn_id: TurnId) -> "Feedback":
        """Return a user's feedback on a reply; raises `FeedbackUnknown`."""
        row = self.filter(user_id=user_id, turn_id=turn_id).first()
        if row is None:
            raise FeedbackUnknown
        return row  # type: ignore[no-any-return]

    def summarize(self) -> list[dict[str, Any]]:
        """Return the feedback by agent; `mean` is that of the scores."""
        rows = self.order_by("agent").values("agent")
        return list(
            rows.annotate(
                scores=Count("score"),
                mean=Avg("score"),
                up=Count("id", filter=Q(thumb="up")),
                down=Count("id", filter=Q(thumb="down")),
                comments=Count("id", filter=~Q(comment="")),
            )
        )

    def with_comment(self) -> Self:
        """Return feedback with a comment, newest first."""
        return self.exclude(comment="").order_by("-created_at", "id")


class Feedback(models.Model):
    """A user's feedback on a reply: a score or a thumb, and a comment."""

    class Thumb(models.TextChoices):
        UP = "up"
        DOWN = "down"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    turn_id = models.UUIDField()
    user_id = models.UUIDField()
    score = models.PositiveSmallIntegerField(null=True)
    """From 0 to 10; null for a thumb."""
    thumb = models.CharField(max_length=4, choices=Thumb, null=True)  # noqa: DJ001
    comment = models.TextField(blank=True, default="")
    agent = models.CharField(max_length=255)
    experiment = models.CharField(max_length=255, blank=True, default="")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = FeedbackQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "feedback"
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "turn_id"], name="judges_feedback_of_turn"
            ),
            models.CheckConstraint(
                # A CHECK that evaluates to NULL passes.
                condition=Q(
                    score__isnull=False, score__gte=0, score__lte=10, thumb=None
                )
                | Q(score=None, thumb__isnull=False, thumb__in=["up", "down"]),
                name="judges_feedback_one_of",
            ),
        ]
        indexes = [
            models.Index(fields=["turn_id"], name="judges_feedback_turn"),
            models.Index(fields=["agent", "created_at"], name="judges_feedback_agent"),
            models.Index(fields=["-created_at", "-id"], name="judges_feedback_newest"),
        ]

    @property
    def completion_id(self) -> str:
        return format_completion_id(self.turn_id)

    def __str__(self) -> str:
        rating = self.thumb if self.score is None else f"{self.score}/10"
        return f"{rating} for {self.agent}"
