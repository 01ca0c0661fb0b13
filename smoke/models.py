"""Smoke runs and their messages."""

import uuid

from django.db import models
from django.db.models import Q


class SmokeRun(models.Model):
    """One conversation, from its launch to its verdict."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        JUDGING = "judging"
        """Ended; waits for scores of its replies."""
        DONE = "done"
        FAILED = "failed"
        """Interrupted by an error; its messages up to then are kept."""
        CANCELLED = "cancelled"

    class Stop(models.TextChoices):
        """Why a conversation ended."""

        PERSONA = "persona_marker"
        AGENT = "assistant_marker"
        MAX_TURNS = "max_turns"
        SILENCE = "silence"
        TIMEOUT = "timeout"
        ERROR = "error"

    class Verdict(models.TextChoices):
        PASSED = "passed"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    batch = models.UUIDField()
    """Common to runs that were launched together."""
    repetition = models.IntegerField()
    """The run's number in the batch, from 1."""
    test = models.CharField(max_length=255)
    target = models.CharField(max_length=255)
    """The agent or experiment, as the test names it."""
    agent = models.CharField(max_length=255, blank=True, default="")
    """The agent that answered; "" until one has."""
    user_id = models.UUIDField()
    """The synthetic user of this run alone."""
    origin = models.CharField(max_length=32)
    """The source: `command`, `schedule`, `studio`."""
    settings = models.JSONField()
    """The test's configuration at launch."""
    state = models.CharField(max_length=16, choices=State, default=State.QUEUED)
    attempt = models.IntegerField(default=0)
    """The attempt of its task that may write to the run."""
    stopped_because = models.CharField(
        max_length=32, choices=Stop, blank=True, default=""
    )
    error = models.TextField(blank=True, default="")
    turns = models.IntegerField(default=0)
    """Number of the agent's replies."""
    cost_micro_usd = models.BigIntegerField(null=True, default=0)
    """Cost of the agent's replies; null if unknown."""
    persona_micro_usd = models.BigIntegerField(null=True, default=0)
    """Cost of the persona's messages."""
    scores = models.JSONField(default=dict)
    """`{"judge.criterion": {"mean": …, "count": …}}`, once it is judged."""
    unscored = models.JSONField(default=dict)
    """Why a judge has not scored every reply, by judge name."""
    verdict = models.CharField(max_length=16, choices=Verdict, blank=True, default="")
    failures = models.JSONField(default=list)
    """Sentences about unmet expectations."""
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    """When the conversation ended."""
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "smoke_run"
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    state__in=[
                        "queued",
                        "running",
                        "judging",
                        "done",
                        "failed",
                        "cancelled",
                    ]
                ),
                name="smoke_run_state",
            )
        ]
        indexes = [
            models.Index(fields=["-created_at", "id"], name="smoke_run_newest"),
            models.Index(fields=["test", "-created_at"], name="smoke_run_of_test"),
            models.Index(fields=["batch", "repetition"], name="smoke_run_of_batch"),
            models.Index(fields=["user_id"], name="smoke_run_of_user"),
            models.Index(
                fields=["created_at"],
                condition=Q(state__in=["queued", "running", "judging"]),
                name="smoke_run_open",
            ),
        ]

    def __str__(self) -> str:
        return f"smoke run {self.id} of {self.test}"


class SmokeMessage(models.Model):
    """One message of a run."""

    class Speaker(models.TextChoices):
        PERSONA = "persona"
        ASSISTANT = "assistant"

    # The unique constraint's index finds a run's messages.
    run = models.ForeignKey(
        SmokeRun, on_delete=models.CASCADE, related_name="messages", db_index=False
    )
    position = models.IntegerField()
    speaker = models.CharField(max_length=16, choices=Speaker)
    text = models.TextField(blank=True, default="")
    agent = models.CharField(max_length=255, blank=True, default="")
    """The agent that sent it; "" for the persona."""
    turn_id = models.UUIDField(null=True)
    """The turn of a reply; its scores refer to it."""
    calls = models.JSONField(default=list)
    """Nested model and tool calls of the message."""
    cost_micro_usd = models.BigIntegerField(null=True)
    seconds = models.FloatField()
    sent_at = models.DateTimeField()

    class Meta:
        db_table = "smoke_message"
        constraints = [
            models.UniqueConstraint(
                fields=["run", "position"], name="smoke_message_position"
            ),
            models.CheckConstraint(
                condition=Q(speaker__in=["persona", "assistant"]),
                name="smoke_message_speaker",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.speaker}: {self.text[:40]}"
