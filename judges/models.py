"""Scores of judges, and feedback of users."""

import uuid

from django.db import models
from django.db.models import Q


class Score(models.Model):
    """One judge's score of one reply by one criterion."""

    class Origin(models.TextChoices):
        """The source of the judged turn."""

        CHAT = "chat"
        TASK = "task"
        SMOKE = "smoke"
        SHADOW = "shadow"

    turn_id = models.UUIDField()
    """The turn of the reply; a shadow run has its own turn id."""
    user_id = models.UUIDField()
    """The user of the turn; the score is erased with them."""
    judge = models.CharField(max_length=255)
    criterion = models.CharField(max_length=64)
    value = models.PositiveSmallIntegerField()
    """From 0 to 10."""
    reasoning = models.TextField(blank=True, default="")
    agent = models.CharField(max_length=255)
    """The agent that replied; for an experiment, the variant."""
    experiment = models.CharField(max_length=255, blank=True, default="")
    """The experiment that selected the agent; "" if none."""
    origin = models.CharField(max_length=16, choices=Origin, default=Origin.CHAT)
    judged_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["turn_id", "judge", "criterion"], name="judges_score_of_turn"
            ),
            models.CheckConstraint(
                condition=Q(value__gte=0, value__lte=10), name="judges_score_value"
            ),
            models.CheckConstraint(
                condition=Q(origin__in=["chat", "task", "smoke", "shadow"]),
                name="judges_score_origin",
            ),
        ]
        indexes = [
            # Covering index for means, for any combination of its fields.
            models.Index(
                fields=[
                    "judge",
                    "criterion",
                    "agent",
                    "experiment",
                    "judged_at",
                    "value",
                ],
                name="judges_score_means",
            ),
            models.Index(
                fields=["user_id", "-judged_at", "-id"], name="judges_score_of_user"
            ),
            # A judge's recent scores, also for lists.
            models.Index(
                fields=["judge", "judged_at", "criterion", "agent", "value"],
                name="judges_score_recent",
            ),
            # A user's means; with `users: shared`, one user has all scores.
            models.Index(
                fields=["user_id", "judge", "criterion", "value"],
                name="judges_score_user_means",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.judge}.{self.criterion}: {self.value} for {self.agent}"


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
        ]

    def __str__(self) -> str:
        rating = self.thumb if self.score is None else f"{self.score}/10"
        return f"{rating} for {self.agent}"
