"""Recorded turns, with the tree of their calls."""

from typing import Any

from django.db import models
from django.db.models import F, Q


class Outcome(models.TextChoices):
    """How a turn ended."""

    OK = "ok"
    CANCELLED = "cancelled"
    ERROR = "error"


class Origin(models.TextChoices):
    """What started a turn."""

    CHAT = "chat"
    TASK = "task"
    SMOKE = "smoke"
    SHADOW = "shadow"


class ToolCallKind(models.TextChoices):
    """The source of a tool."""

    MCP = "mcp"
    SUBAGENT = "subagent"
    SKILL = "skill"
    MEMORY = "memory"
    TASK = "task"
    CLIENT = "client"
    UNKNOWN = "unknown"


class ExpensePurpose(models.TextChoices):
    """Purposes of model calls outside turns."""

    JUDGE = "judge"


def _choice_constraint(choices: type[models.TextChoices], field: str, name: str) -> Any:
    """Return the constraint that a column contains one of its choices."""
    allowed = Q(**{f"{field}__in": choices.values})
    return models.CheckConstraint(condition=allowed, name=name)


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

    class Meta:
        constraints = [
            _choice_constraint(Outcome, "outcome", "telemetry_turn_outcome"),
            _choice_constraint(Origin, "origin", "telemetry_turn_origin"),
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
        ]

    def __str__(self) -> str:
        return f"turn {self.pk} ({self.outcome})"


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
    """Return the constraints on a call's position in its turn."""
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
    """One call of a model."""

    # The unique constraint's index finds a turn's calls.
    turn = models.ForeignKey(
        Turn, on_delete=models.CASCADE, related_name="+", db_index=False
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
                ],
                name="telemetry_calls_of_model",
            )
        ]

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class ToolCall(RecordedCall):
    """One call of a tool."""

    turn = models.ForeignKey(
        Turn, on_delete=models.CASCADE, related_name="+", db_index=False
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

    class Meta:
        constraints = [
            *_position_constraints("tool_call"),
            _choice_constraint(ToolCallKind, "kind", "telemetry_tool_call_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Expense(models.Model):
    """Model calls outside turns, for one purpose at one time.

    The operator pays for them, so the row contains no user.
    """

    purpose = models.CharField(max_length=16, choices=ExpensePurpose)
    name = models.CharField(max_length=255)
    """The judge."""
    agent = models.CharField(max_length=255)
    """The agent whose reply was judged."""
    provider = models.CharField(max_length=255)
    model = models.CharField(max_length=255)
    spent_at = models.DateTimeField()
    model_calls = models.IntegerField()
    # Sum of all calls.
    input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    cache_read_tokens = models.BigIntegerField()
    cache_write_tokens = models.BigIntegerField()
    reasoning_tokens = models.BigIntegerField()
    cost_micro_usd = models.BigIntegerField(null=True)
    """Null if unknown, which is not 0."""

    class Meta:
        constraints = [
            _choice_constraint(ExpensePurpose, "purpose", "telemetry_expense_purpose")
        ]
        indexes = [
            # Covering index for sums.
            models.Index(
                fields=[
                    "spent_at",
                    "id",
                    "purpose",
                    "name",
                    "agent",
                    "provider",
                    "model",
                    "input_tokens",
                    "output_tokens",
                    "cost_micro_usd",
                ],
                name="telemetry_expense_at",
            )
        ]

    def __str__(self) -> str:
        return f"{self.purpose} {self.name}: {self.provider}/{self.model}"
