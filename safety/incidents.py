"""Stores what the checks of a turn have found."""

from collections.abc import Sequence
from datetime import UTC, datetime

from safety.models import Incident
from safety.turn_safety import CheckedTurn, Finding
from telemetry.storage.stored_text import make_storable


def store(turn: CheckedTurn, findings: Sequence[Finding]) -> None:
    """Store findings as incidents; those of incognito turns without an identity."""
    Incident.objects.bulk_create(_incident(turn, finding) for finding in findings)


def _incident(turn: CheckedTurn, finding: Finding) -> Incident:
    incident = Incident(
        at=datetime.now(UTC),
        check_name=finding.check.name,
        level=finding.level,
        severity=finding.severity,
        stage=finding.check.when,
        agent=turn.agent,
        actions=", ".join(finding.action.names),
        reason=make_storable(finding.reason),
    )
    if not turn.is_incognito:
        incident.user_id = turn.user_id
        incident.thread = turn.thread
        incident.turn_id = turn.turn_id
        incident.excerpt = make_storable(finding.excerpt)
    return incident


def session_levels(turn: CheckedTurn) -> dict[str, str]:
    """Return the highest level of each check in the session of the turn's thread."""
    return Incident.objects.session_levels(turn.user_id, turn.thread)
