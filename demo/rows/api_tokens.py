"""API tokens of some users, and their usage."""

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
from demo.rows.bulk_insert import DemoRows
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
TOKEN_INTERVAL = 12
"""Every so many-th user has a token."""
MAX_TOKENS = 40


@dataclass
class SampleUsage:
    """Usage of one token within a window."""

    requests: int = 0
    tokens: int = 0
    micro_usd: int = 0
    unpriced: int = 0
    last_at: int = 0


@dataclass
class SampleTokens(DemoRows):
    """The tokens and their usage."""

    tokens: dict[int, uuid.UUID] = field(default_factory=dict)
    """Token ids by the number of their user."""
    by_window: dict[tuple[uuid.UUID, int, int], SampleUsage] = field(
        default_factory=dict
    )

    def charge(self, token_id: uuid.UUID, turn: SimulatedTurn) -> None:
        tokens, cost = simulated_turns.total_usage(turn.calls)
        now = int(turn.ended_at.timestamp())
        for length in (EVER, CALENDAR_MONTH):
            window = time_windows.window_at(length, now)
            usage = self.by_window.setdefault(
                (token_id, length, window.start), SampleUsage()
            )
            usage.requests += 1
            usage.tokens += tokens.input_tokens + tokens.output_tokens
            usage.micro_usd += cost or 0
            usage.unpriced += cost is None
            usage.last_at = max(usage.last_at, now)

    def write(self) -> None:
        """Write the usage counters."""
        for (token_id, length, start), usage in self.by_window.items():
            self._inserts.add(
                UsageCounter,
                subject=f"token:{token_id.hex}",
                window=length,
                start=start,
                **vars(usage),
            )

    def create(self, audit: AuditEntries) -> None:
        """Create tokens for some users; no keys exist for them."""
        start, now = self._traffic.start, self._traffic.now
        for number, user in enumerate(self._users[2::TOKEN_INTERVAL][:MAX_TOKENS]):
            token_id = simulated_turns.random_uuid(self._rng)
            self.tokens[user.number] = token_id
            row: dict[str, Any] = {
                "id": token_id,
                "digest": f"{self._rng.getrandbits(256):064x}",
                "label": f"{LABELS[number % len(LABELS)]} of {user.first}",
                "principal": user.name,
                "agents": ["welcome"] if number % 5 == 4 else None,
                "created_at": min(start + timedelta(hours=number), now),
                **TERMS[number % len(TERMS)],
                **_end(number, self._traffic),
            }
            self._inserts.add(ApiToken, **row)
            details = {name: row[name] for name in ("label", "principal")}
            audit.add(row["created_at"], ("token.create", str(token_id), details))
            if "revoked_at" in row:
                audit.add(row["revoked_at"], ("token.revoke", str(token_id), details))


def _end(number: int, traffic: TrafficPattern) -> dict[str, datetime]:
    if number % 7 == 3:
        return {"revoked_at": traffic.now - (traffic.now - traffic.start) / 3}
    if number % 7 == 5:
        return {"expires_at": datetime(traffic.now.year + 2, 1, 1, tzinfo=UTC)}
    return {}
