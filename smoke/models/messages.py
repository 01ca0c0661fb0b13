"""The messages of smoke runs."""

from django.db import models
from django.db.models import Q

from smoke.models.runs import SmokeRun
from telemetry.presentation.turn_serializers import to_usd


class SmokeMessage(models.Model):
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

    @property
    def cost_usd(self) -> float | None:
        """The cost of the message; None if unknown."""
        return to_usd(self.cost_micro_usd)
