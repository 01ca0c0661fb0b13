"""Choices of facts' fields."""

from django.db import models


class FactCategory(models.TextChoices):
    PREFERENCE = "preference"
    FACT = "fact"
    EVENT = "event"
    RELATIONSHIP = "relationship"
    DECISION = "decision"
    GENERAL = "general"
    RULE = "rule"
    """How the user wants to be answered."""
    EPISODE = "episode"
    """What happened in a session, written at its end."""


class FactStatus(models.TextChoices):
    """The status of a fact; only active facts reach prompts."""

    ACTIVE = "active"
    PENDING_REVIEW = "pending_review"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    DELETED = "deleted"


class HeldFor(models.TextChoices):
    """Why a fact is pending review."""

    INJECTION = "injection", "looks like an instruction"
    CONFLICT = "conflict", "contradicts what a person set"
    LIMIT = "limit", "there are too many rules"
    SESSION = "session", "until the session ends"
    CONSENT = "consent", "until the user accepts it"
    PERSON = "person", "sent by a person"


class FactSource(models.TextChoices):
    EXTRACTION = "extraction"
    AGENT = "agent"
    USER = "user"
    OPERATOR = "operator"


HUMAN_SOURCES = (FactSource.USER, FactSource.OPERATOR)
"""Sources whose facts extraction cannot change."""
