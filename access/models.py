"""API tokens, usage counters, and the audit."""

import uuid

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class BudgetPeriod(models.TextChoices):
    """The period of a token's budget."""

    UNLIMITED = "unlimited"
    TOTAL = "total"
    MONTHLY = "monthly"


class ApiToken(models.Model):
    """An issued API key; the key itself is not stored."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    digest = models.CharField(max_length=64, unique=True)
    """The SHA-256 of the whole key, in hexadecimal."""
    label = models.CharField(max_length=255)
    principal = models.CharField(max_length=512)
    """The user that its requests belong to, as the operator names them."""
    budget = models.CharField(
        max_length=16, choices=BudgetPeriod, default=BudgetPeriod.UNLIMITED
    )
    limit_micro_usd = models.BigIntegerField(null=True)
    agents = models.JSONField(null=True)
    """The names of the agents that it may call; null means all."""
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    version = models.IntegerField(default=1)
    """Incremented with each change; processes validate their cached tokens by it."""

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(budget__in=BudgetPeriod.values),
                name="access_apitoken_budget",
            ),
            models.CheckConstraint(
                condition=Q(budget="unlimited", limit_micro_usd=None)
                | (~Q(budget="unlimited") & Q(limit_micro_usd__gte=0)),
                name="access_apitoken_limit",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.label} ({self.principal})"


class UserNamespace(models.Model):
    """The namespace of this database's user ids: at most one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, db_default=1)
    fingerprint = models.CharField(max_length=64)
    """A digest of the namespace, in hexadecimal."""
    recorded_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(id=1), name="access_user_namespace_one_row"
            )
        ]

    def __str__(self) -> str:
        return self.fingerprint


class UsageCounter(models.Model):
    """The usage of a subject within a window, and its reservations for turns.

    `epoch` numbers intervals of time. A reservation expires at the end of the epoch
    after its own, so a killed process blocks no usage for long.
    """

    pk = models.CompositePrimaryKey("subject", "window", "start")
    subject = models.CharField(max_length=300)
    """`user:ID`, `token:ID` or `agent:NAME`."""
    window = models.IntegerField()
    """Its length in seconds; 0 is all time, 1 the calendar month."""
    start = models.BigIntegerField()
    """Seconds since 1970; 0 for all time."""
    requests = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    micro_usd = models.BigIntegerField(default=0)
    unpriced = models.BigIntegerField(default=0)
    """Turns of unknown cost, which `micro_usd` does not include."""
    last_at = models.BigIntegerField()
    """When it was last used, in seconds since 1970."""
    epoch = models.BigIntegerField(default=0)
    turns_reserved_now = models.IntegerField(default=0)
    turns_reserved_before = models.IntegerField(default=0)
    tokens_reserved_now = models.BigIntegerField(default=0)
    tokens_reserved_before = models.BigIntegerField(default=0)
    micro_usd_reserved_now = models.BigIntegerField(default=0)
    micro_usd_reserved_before = models.BigIntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["window", "start"], name="access_usagecounter_old")
        ]

    def __str__(self) -> str:
        return f"{self.subject} in {self.window} s from {self.start}"


class AuditEntry(models.Model):
    """A change that an operator or a user made."""

    at = models.DateTimeField()
    actor = models.CharField(max_length=512)
    """The name of the actor."""
    action = models.CharField(max_length=64)
    """The action, such as `token.create`."""
    target = models.CharField(max_length=512, blank=True, default="")
    """The changed object."""
    details = models.JSONField(default=dict)
    """More details; never a secret."""
    origin = models.CharField(max_length=255, blank=True, default="")
    """The source: an address, or the command line."""
    request_id = models.CharField(max_length=128, blank=True, default="")

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["at", "id"], name="access_audit_at"),
            models.Index(fields=["action", "at"], name="access_audit_action"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target}"
