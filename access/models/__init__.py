"""API tokens, usage counters, and the audit."""

from access.models.audit import AuditEntry, AuditEntryQuerySet
from access.models.counters import UsageCounter
from access.models.namespace import UserNamespace
from access.models.reservations import UsageReservation
from access.models.tokens import ApiToken, ApiTokenQuerySet, BudgetPeriod

__all__ = [
    "ApiToken",
    "ApiTokenQuerySet",
    "AuditEntry",
    "AuditEntryQuerySet",
    "BudgetPeriod",
    "UsageCounter",
    "UsageReservation",
    "UserNamespace",
]
