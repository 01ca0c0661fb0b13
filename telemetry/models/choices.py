"""Choices of columns, and what the tables share."""

from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Q

from config import live
from telemetry.config import TELEMETRY


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
    VOICE = "voice"


USER_ORIGINS = (Origin.CHAT, Origin.TASK, Origin.VOICE)
"""Turns that users started themselves and may see."""


class ToolCallKind(models.TextChoices):
    """The source of a tool."""

    MCP = "mcp"
    SUBAGENT = "subagent"
    SKILL = "skill"
    MEMORY = "memory"
    TASK = "task"
    CLIENT = "client"
    SAFETY = "safety"
    UNKNOWN = "unknown"


class ExpensePurpose(models.TextChoices):
    """Purposes of model calls outside turns."""

    JUDGE = "judge"
    EMBEDDING = "embedding"


def choice_constraint(choices: type[models.TextChoices], field: str, name: str) -> Any:
    allowed = Q(**{f"{field}__in": choices.values})
    return models.CheckConstraint(condition=allowed, name=name)


def retention_start(now: datetime) -> datetime | None:
    """Return the time before which records expire; None if they never do.

    Also applies while recording is off, to earlier records.
    """
    keep_days = live.current().get(TELEMETRY).sqlite.keep_days
    return None if keep_days is None else now - timedelta(days=keep_days)
