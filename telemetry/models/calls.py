"""The calls of recorded turns."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Substr

from telemetry.models.choices import ToolCallKind, choice_constraint


class RecordedCall(models.Model):
    """One call within a turn; model and tool calls share one numbering."""

    position = models.IntegerField()
    """Each call comes after the one that contains it and before later ones."""
    parent_position = models.IntegerField(null=True)
    """The tool call that contains it; null for the turn itself."""
    started_at = models.DateTimeField()
    seconds = models.FloatField(null=True)
    """Null if it was interrupted."""
    error = models.TextField(null=True)  # noqa: DJ001

    class Meta:
        abstract = True


def _position_constraints(kind: str) -> list[Any]:
    return [
        models.UniqueConstraint(
            fields=["turn", "position"], name=f"telemetry_{kind}_position"
        ),
        models.CheckConstraint(
            condition=Q(position__gte=0)
            & (Q(parent_position=None) | Q(parent_position__lt=F("position"))),
            name=f"telemetry_{kind}_after_parent",
        ),
    ]


class ModelCall(RecordedCall):
    # The unique constraint's index finds a turn's calls.
    turn = models.ForeignKey(
        "telemetry.Turn", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    agent = models.CharField(max_length=255)
    provider = models.CharField(max_length=255)
    model = models.CharField(max_length=255)
    finish_reason = models.CharField(max_length=32, blank=True, default="")
    attempts = models.TextField(null=True)  # noqa: DJ001
    """JSON: every HTTP request of the call. Null if none failed and the provider has a
    single endpoint.
    """
    # Null if it failed: the usage is unknown.
    input_tokens = models.BigIntegerField(null=True)
    output_tokens = models.BigIntegerField(null=True)
    cache_read_tokens = models.BigIntegerField(null=True)
    cache_write_tokens = models.BigIntegerField(null=True)
    reasoning_tokens = models.BigIntegerField(null=True)
    cost_micro_usd = models.BigIntegerField(null=True)

    class Meta:
        constraints = _position_constraints("model_call")
        indexes = [
            # Covering index for sums.
            models.Index(
                fields=[
                    "provider",
                    "model",
                    "started_at",
                    "input_tokens",
                    "output_tokens",
                    "cost_micro_usd",
                    "cache_read_tokens",
                    "cache_write_tokens",
                ],
                name="telemetry_calls_of_model",
            )
        ]

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class ToolCallQuerySet(models.QuerySet["ToolCall"]):
    def load_top_level(
        self, turn_ids: Collection[UUID], max_length: int
    ) -> list["ToolCall"]:
        """Return the agents' own calls in order, with the beginnings of their texts.

        A text has one character more than `max_length` if it was cut.
        """
        names = ("arguments", "result", "error")
        texts = {f"{name}_start": Substr(name, 1, max_length + 1) for name in names}
        calls = self.filter(turn__in=turn_ids, depth=0).order_by("turn", "position")
        found = list(calls.defer(*names).annotate(**texts))
        for call in found:
            for name in names:
                setattr(call, name, getattr(call, f"{name}_start"))
        return found


class ToolCall(RecordedCall):
    turn = models.ForeignKey(
        "telemetry.Turn", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    depth = models.SmallIntegerField()
    """Number of tool calls that contain it."""
    name = models.CharField(max_length=255)
    kind = models.CharField(max_length=16, choices=ToolCallKind)
    target = models.CharField(max_length=255, blank=True, default="")
    """The MCP server or agent that was called, if any."""
    call_id = models.CharField(max_length=255, blank=True, default="")
    """The id that the model gave it."""
    arguments = models.TextField(blank=True, default="")
    """JSON, as the model wrote it."""
    result = models.TextField(null=True)  # noqa: DJ001
    """Null if it failed or the turn did not wait for it."""

    objects = ToolCallQuerySet.as_manager()

    class Meta:
        constraints = [
            *_position_constraints("tool_call"),
            choice_constraint(ToolCallKind, "kind", "telemetry_tool_call_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
