"""What operators changed in the month."""

import random
from datetime import datetime, timedelta
from typing import Any

from access.models import AuditEntry
from demo.bulk import Inserts
from demo.people import DOMAIN, Person
from demo.rhythm import Calendar

ACTION = "demo.fill"
"""The entry that says what a demo made."""
MAKER = f"demo@{DOMAIN}"
DEEDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("token.create", "4f3c…", {"label": "kiosk", "budget": "monthly"}),
    ("token.revoke", "4f3c…", {"label": "kiosk"}),
    ("override.save", "agent front-desk-warm", {"section": "agents"}),
    ("override.reset", "agent front-desk-warm", {"section": "agents"}),
    ("config.write", "coulisse.yaml", {"sections": ["judges"]}),
    ("task.retry", "71c9…", {}),
    ("trigger.fire", "new-review", {}),
    ("fact.update", "b81d…", {"fields": ["content"]}),
    ("user.export", "3a40…", {}),
)


def write(
    inserts: Inserts, calendar: Calendar, staff: list[Person], chance: random.Random
) -> None:
    """Add a few deeds for every day."""
    midnight = calendar.start.replace(hour=0, minute=0, second=0, microsecond=0)
    for day in range(calendar.days):
        for _ in range(chance.randrange(4)):
            at = midnight + timedelta(days=day, hours=chance.uniform(8, 19))
            action, target, details = chance.choice(DEEDS)
            inserts.add(
                AuditEntry,
                at=min(at, calendar.now),
                actor=f"oidc:{chance.choice(staff).name}",
                action=action,
                target=target,
                details=details,
                origin=f"192.0.2.{chance.randrange(2, 250)}",
                request_id=f"req_{chance.getrandbits(48):012x}",
            )


def note(inserts: Inserts, now: datetime, **details: Any) -> None:
    """Say what a demo made."""
    inserts.add(AuditEntry, at=now, actor=MAKER, action=ACTION, details=details)
