"""What operators changed in the month."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from access.models import AuditEntry
from demo import simulated_turns
from demo.rows.bulk_insert import BulkInsert
from demo.sample_users import DOMAIN, SampleUser
from demo.traffic_pattern import TrafficPattern
from memory.facts import public_ids

ACTION = "demo.fill"
"""The entry that says what a demo made."""
MAKER = f"demo@{DOMAIN}"

SampleAuditEntry = tuple[str, str, dict[str, Any]]
"""What was done, to what, and more about it."""


class AuditEntries:
    """Audit entries of a few operators."""

    def __init__(
        self,
        inserts: BulkInsert,
        calendar: TrafficPattern,
        people: list[SampleUser],
        chance: random.Random,
    ) -> None:
        self._inserts = inserts
        self._calendar = calendar
        self._people = people
        self._chance = chance

    def write(self) -> None:
        """Add a few entries for every day."""
        begin = self._calendar.start
        midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
        for day in range(self._calendar.days):
            for _ in range(self._chance.randrange(3)):
                hours = self._chance.uniform(8, 19)
                deed = self._chance.choice(self._kinds())()
                self.add(midnight + timedelta(days=day, hours=hours), deed)

    def add(self, at: datetime, deed: SampleAuditEntry) -> None:
        """Add an entry of one of them."""
        action, target, details = deed
        somebody = self._chance.choice(self._people[-3:])
        self._inserts.add(
            AuditEntry,
            at=min(max(at, self._calendar.start), self._calendar.now),
            actor=f"oidc:{somebody.name}",
            action=action,
            target=target,
            details=details,
            origin=f"192.0.2.{self._chance.randrange(2, 250)}",
            request_id=f"req_{self._chance.getrandbits(48):012x}",
        )

    def _kinds(self) -> list[Callable[[], SampleAuditEntry]]:
        return [
            lambda: ("agent.save", "front-desk-warm", {}),
            lambda: ("agent.reset", "front-desk-warm", {}),
            lambda: ("config.write", "coulisse.yaml", {"sections": ["judges"]}),
            lambda: ("task.retry", str(simulated_turns.uuid_of(self._chance)), {}),
            lambda: ("trigger.run", "new-review", {}),
            lambda: (
                "memory.change",
                self._fact(),
                {**self._user(), "fields": ["content"]},
            ),
            lambda: ("user.export", self._user()["user"], {}),
        ]

    def _fact(self) -> str:
        return public_ids.format_fact_id(simulated_turns.uuid_of(self._chance))

    def _user(self) -> dict[str, str]:
        return {"user": str(self._chance.choice(self._people).user_id)}


def note(inserts: BulkInsert, now: datetime, **details: Any) -> None:
    """Record that the demo was created."""
    inserts.add(AuditEntry, at=now, actor=MAKER, action=ACTION, details=details)
