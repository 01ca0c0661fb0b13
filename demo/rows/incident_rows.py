"""Incidents of safety checks."""

from demo.rows.bulk_insert import BulkInsert
from demo.rows.turn_records import TurnContext
from demo.simulated_turns import SimulatedTurn
from safety.models import Incident


def add_incidents(
    inserts: BulkInsert, turn: SimulatedTurn, context: TurnContext
) -> None:
    """Add what the checks of a turn have found."""
    for finding in turn.findings:
        inserts.add(
            Incident,
            at=turn.started_at,
            check_name=finding.check.name,
            level=finding.level,
            severity=finding.severity,
            stage=finding.check.when,
            agent=turn.agent,
            actions=", ".join(finding.action.names),
            reason=finding.reason,
            excerpt=finding.excerpt,
            user_id=context.user_id,
            thread=context.thread,
            turn_id=turn.turn_id,
        )
