"""Audit entries of operators during the month."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any

from access.models import AuditEntry
from demo import simulated_turns
from demo.rows.bulk_insert import DemoRows
from demo.sample_users import DOMAIN
from memory.facts import public_ids

ACTION = "demo.fill"
"""The action of the entry that records the demo itself."""
ACTOR = f"demo@{DOMAIN}"

SampleAuditEntry = tuple[str, str, dict[str, Any]]
"""Action, target and details."""


class AuditEntries(DemoRows):
    """Audit entries of a few operators."""

    def write(self) -> None:
        """Add a few entries for every day."""
        midnight = datetime.combine(self._traffic.start, time(tzinfo=UTC))
        for day in range(self._traffic.days):
            for _ in range(self._rng.randrange(3)):
                hours = self._rng.uniform(8, 19)
                entry = self._rng.choice(self._kinds())()
                self.add(midnight + timedelta(days=day, hours=hours), entry)

    def add(self, at: datetime, entry: SampleAuditEntry) -> None:
        """Add an entry of a random operator."""
        action, target, details = entry
        operator = self._rng.choice(self._users[-3:])
        self._inserts.add(
            AuditEntry,
            at=min(max(at, self._traffic.start), self._traffic.now),
            actor=f"oidc:{operator.name}",
            action=action,
            target=target,
            details=details,
            origin=f"192.0.2.{self._rng.randrange(2, 250)}",
            request_id=f"req_{self._rng.getrandbits(48):012x}",
        )

    def _kinds(self) -> list[Callable[[], SampleAuditEntry]]:
        return [
            lambda: ("agent.save", "front-desk-warm", {}),
            lambda: ("agent.reset", "front-desk-warm", {}),
            lambda: ("config.write", "coulisse.yaml", {"sections": ["judges"]}),
            lambda: ("task.retry", str(simulated_turns.random_uuid(self._rng)), {}),
            lambda: ("trigger.run", "new-review", {}),
            lambda: (
                "memory.change",
                public_ids.format_fact_id(simulated_turns.random_uuid(self._rng)),
                {"user": self._user(), "fields": ["content"]},
            ),
            lambda: ("user.export", self._user(), {}),
        ]

    def _user(self) -> str:
        return str(self._rng.choice(self._users).user_id)

    def record_demo(self, **details: Any) -> None:
        """Record that the demo was created."""
        now = self._traffic.now
        self._inserts.add(
            AuditEntry, at=now, actor=ACTOR, action=ACTION, details=details
        )
