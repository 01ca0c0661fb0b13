"""API tokens of some of the people, and what was spent with them."""

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from access.limits import time_windows
from access.limits.time_windows import CALENDAR_MONTH, EVER
from access.models import ApiToken, UsageCounter
from demo import simulated_turns
from demo.rows.audit_entries import AuditEntries
from demo.rows.bulk_insert import BulkInsert
from demo.sample_users import SampleUser
from demo.simulated_turns import SimulatedTurn
from demo.traffic_pattern import TrafficPattern

LABELS = ("laptop", "website", "phone app", "ticket kiosk", "intranet", "ci")
DOLLAR = 1_000_000
TERMS: tuple[Mapping[str, Any], ...] = (
    {},
    {"budget": "monthly", "limit_micro_usd": 5 * DOLLAR},
    {"budget": "monthly", "limit_micro_usd": DOLLAR // 10},
    {"budget": "total", "limit_micro_usd": DOLLAR // 2},
)
EVERY = 12
"""One in so many people has a token."""
MOST = 40


@dataclass
class SampleUsage:
    """What one token has used within a window."""

    requests: int = 0
    tokens: int = 0
    micro_usd: int = 0
    unpriced: int = 0
    last_at: int = 0


@dataclass
class SampleUsages:
    """The tokens there are, and what they have used."""

    tokens: dict[int, uuid.UUID] = field(default_factory=dict)
    """By the number of whom they stand for."""
    used: dict[tuple[uuid.UUID, int, int], SampleUsage] = field(default_factory=dict)

    def spend(self, token_id: uuid.UUID, played: SimulatedTurn) -> None:
        """Charge a turn to a token."""
        usage, cost = simulated_turns.used(played.calls)
        now = int(played.ended_at.timestamp())
        for length in (EVER, CALENDAR_MONTH):
            window = time_windows.window_at(length, now)
            purse = self.used.setdefault(
                (token_id, length, window.start), SampleUsage()
            )
            purse.requests += 1
            purse.tokens += usage.input_tokens + usage.output_tokens
            purse.micro_usd += cost or 0
            purse.unpriced += cost is None
            purse.last_at = max(purse.last_at, now)

    def write(self, inserts: BulkInsert) -> None:
        """Write the meters."""
        for (token_id, length, start), purse in self.used.items():
            inserts.add(
                UsageCounter,
                subject=f"token:{token_id.hex}",
                window=length,
                start=start,
                **vars(purse),
            )


def create_tokens(
    inserts: BulkInsert,
    people: list[SampleUser],
    calendar: TrafficPattern,
    chance: random.Random,
    audit: AuditEntries,
) -> SampleUsages:
    """Give tokens to some; nobody has their keys."""
    purses = SampleUsages()
    for person in people[2::EVERY][:MOST]:
        number = len(purses.tokens)
        purses.tokens[person.number] = token_id = simulated_turns.uuid_of(chance)
        row: dict[str, Any] = {
            "id": token_id,
            "digest": f"{chance.getrandbits(256):064x}",
            "label": f"{LABELS[number % len(LABELS)]} of {person.first}",
            "principal": person.name,
            "agents": ["welcome"] if number % 5 == 4 else None,
            "created_at": min(calendar.start + timedelta(hours=number), calendar.now),
            **TERMS[number % len(TERMS)],
            **_end(number, calendar),
        }
        inserts.add(ApiToken, **row)
        known = {name: row[name] for name in ("label", "principal")}
        audit.add(row["created_at"], ("token.create", str(token_id), known))
        if "revoked_at" in row:
            audit.add(row["revoked_at"], ("token.revoke", str(token_id), known))
    return purses


def _end(number: int, calendar: TrafficPattern) -> dict[str, datetime]:
    if number % 7 == 3:
        return {"revoked_at": calendar.now - (calendar.now - calendar.start) / 3}
    if number % 7 == 5:
        return {"expires_at": datetime(calendar.now.year + 2, 1, 1, tzinfo=UTC)}
    return {}
