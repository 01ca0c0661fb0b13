"""Stores what the checks of a turn have found."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from core.ids import UserId
from safety.finding import Finding
from safety.models import Incident
from safety.turn_safety import CheckedTurn
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec
from telemetry.storage.stored_text import make_storable

WEBHOOK_TASK = "safety"
"""The kind of the tasks that report incidents."""
WEBHOOK_PRIORITY = 10
MAX_FAILURES = 8
INCOGNITO_USER = UserId(UUID(int=0))
"""The user of tasks about incognito turns."""
FIXED_REASONS = ("regex", "pii", "moderation")
"""The kinds of checks whose reasons are names, never the words of a user."""


def store(turn: CheckedTurn, findings: Sequence[Finding]) -> None:
    """Store findings as incidents, and queue the tasks that report them.

    Those of incognito turns have no identity, nor have their tasks.
    """
    with transaction.atomic():
        rows = Incident.objects.bulk_create(_incident(turn, each) for each in findings)
        specs = [
            TaskSpec(
                WEBHOOK_TASK,
                INCOGNITO_USER if turn.is_incognito else turn.user_id,
                turn.agent,
                payload={"incident": row.pk},
                origin=f"safety:{row.check_name}",
                priority=WEBHOOK_PRIORITY,
                max_failures=MAX_FAILURES,
            )
            for row, finding in zip(rows, findings, strict=True)
            if finding.action.webhook is not None
        ]
        if specs:
            Task.objects.enqueue(specs)


def _incident(turn: CheckedTurn, finding: Finding) -> Incident:
    incident = Incident(
        at=datetime.now(UTC),
        check_name=finding.check.name,
        level=finding.level,
        severity=finding.severity,
        stage=finding.check.when,
        agent=turn.agent,
        actions=", ".join(finding.action.names),
    )
    has_fixed_reason = finding.level and finding.check.by.kind in FIXED_REASONS
    if has_fixed_reason or not turn.is_incognito:
        incident.reason = make_storable(finding.reason)
    if not turn.is_incognito:
        incident.user_id = turn.user_id
        incident.thread = turn.thread
        incident.turn_id = turn.turn_id
        incident.excerpt = make_storable(finding.excerpt)
    return incident


def describe(incident_id: int) -> dict[str, Any] | None:
    """Return an incident as webhooks receive it, without texts of the conversation."""
    row = Incident.objects.filter(pk=incident_id).first()
    if row is None:
        return None
    return {
        "object": "safety.incident",
        "id": row.pk,
        "at": row.at.isoformat(),
        "check": row.check_name,
        "level": row.level,
        "severity": row.severity,
        "stage": row.stage,
        "agent": row.agent,
        "actions": row.actions.split(", ") if row.actions else [],
        "user_id": None if row.user_id is None else str(row.user_id),
        "thread_id": row.thread or None,
        "turn_id": None if row.turn_id is None else str(row.turn_id),
    }
