"""Models of facts and their history."""

import uuid
from typing import Any

from django.db import models
from django.db.models import Q

from memory.models.threads import StoredMessage


class FactCategory(models.TextChoices):
    """The subject of a fact."""

    PREFERENCE = "preference"
    FACT = "fact"
    EVENT = "event"
    RELATIONSHIP = "relationship"
    DECISION = "decision"
    GENERAL = "general"


class FactStatus(models.TextChoices):
    """The status of a fact; only active facts reach prompts."""

    ACTIVE = "active"
    PENDING_REVIEW = "pending_review"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    DELETED = "deleted"


class FactSource(models.TextChoices):
    """The origin of a fact."""

    EXTRACTION = "extraction"
    AGENT = "agent"
    USER = "user"
    OPERATOR = "operator"


class Fact(models.Model):
    """One fact about one user."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user_id = models.UUIDField()
    content = models.TextField()
    category = models.CharField(max_length=16, choices=FactCategory, default="general")
    key = models.CharField(max_length=255, null=True)  # noqa: DJ001  NULL is not ""
    """Unique key: `category` + `key` identify one fact."""
    importance = models.SmallIntegerField(default=5)
    """1 is trivial, 10 critical."""
    status = models.CharField(max_length=16, choices=FactStatus, default="active")
    is_pinned = models.BooleanField(default=False)
    """Pinned facts do not expire, and prompts include them first."""
    source = models.CharField(max_length=16, choices=FactSource)
    agent = models.CharField(max_length=255, blank=True, default="")
    """The agent whose turn it was extracted from, or that saved it."""
    quote = models.TextField(blank=True, default="")
    """The user's own words that it was extracted from."""
    message = models.ForeignKey(StoredMessage, null=True, on_delete=models.SET_NULL)
    said_at = models.DateTimeField()
    """When the user said it: later statements win."""
    valid_from = models.DateTimeField(null=True)
    valid_to = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    superseded_by = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="supersedes"
    )
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "category", "key"],
                condition=Q(status="active", key__isnull=False),
                name="memory_fact_user_category_key",
            ),
            models.CheckConstraint(
                condition=Q(importance__gte=1, importance__lte=10),
                name="memory_fact_importance",
            ),
        ]
        indexes = [
            models.Index(
                fields=["user_id", "status", "-created_at", "-id"],
                name="memory_fact_of_user",
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(status="active", expires_at__isnull=False),
                name="memory_fact_expiring",
            ),
            models.Index(
                fields=["user_id"],
                condition=Q(status="active")
                & (Q(is_pinned=True) | Q(importance__gte=9)),
                name="memory_fact_in_prompts",
            ),
        ]

    def __str__(self) -> str:
        return f"[{self.category}] {self.content[:60]}"


class FactChange(models.Model):
    """One step in the history of a fact: who, when, why, before and after."""

    fact = models.ForeignKey(Fact, on_delete=models.CASCADE, related_name="changes")
    user_id = models.UUIDField()
    at = models.DateTimeField()
    action = models.CharField(max_length=16)
    """created, updated, superseded, outdated, flagged (for review), restored, pinned,
    unpinned, expired, deleted."""
    by = models.CharField(max_length=300)
    """`extraction`, `agent:NAME`, `user`, `mcp` (a client at /mcp) or `operator`."""
    reason = models.CharField(max_length=500, blank=True, default="")
    before: Any = models.JSONField(null=True)
    after: Any = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["user_id", "at"], name="memory_change_of_user"),
        ]

    def __str__(self) -> str:
        return f"{self.action} by {self.by}"
