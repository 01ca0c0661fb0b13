"""Serializers of facts and their history for clients.

`created_at` and `updated_at` are seconds since 1970, as in OpenAI's objects; every
other instant is ISO 8601 in UTC.
"""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from core.text.timestamps import format_time
from memory.facts import public_ids
from memory.facts.types import FactHistoryStep, StoredFact


def serialize_fact(fact: StoredFact) -> dict[str, Any]:
    """Return a fact as a `memory` object."""
    superseded_by = fact.superseded_by
    return {
        "id": public_ids.format_fact_id(fact.id),
        "object": "memory",
        "content": fact.content,
        "category": fact.category,
        "key": fact.key,
        "importance": fact.importance,
        "status": fact.status,
        "pinned": fact.is_pinned,
        "source": fact.source,
        "agent": fact.agent or None,
        "quote": fact.quote or None,
        "said_at": format_time(fact.said_at),
        "valid_from": format_time(fact.valid_from),
        "valid_to": format_time(fact.valid_to),
        "expires_at": format_time(fact.expires_at),
        "superseded_by": public_ids.format_fact_id(superseded_by)
        if superseded_by
        else None,
        "created_at": unix_seconds(fact.created_at),
        "updated_at": unix_seconds(fact.updated_at),
    }


def serialize_change(step: FactHistoryStep) -> dict[str, Any]:
    """Return a step of a fact's history as a `memory.change` object."""
    return {
        "object": "memory.change",
        "at": format_time(step.at),
        "action": step.action,
        "by": step.by,
        "reason": step.reason or None,
        "before": _serialize_fields(step.before),
        "after": _serialize_fields(step.after),
    }


def unix_seconds(at: datetime) -> int:
    """Return an instant as seconds since 1970."""
    return int(at.timestamp())


JSON_NAMES = {"is_pinned": "pinned", "superseded_by_id": "superseded_by"}
TIME_FIELDS = {"said_at", "valid_from", "valid_to", "expires_at"}
NULL_IF_EMPTY = {"agent", "quote"}


def _serialize_fields(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if values is None:
        return None
    return {
        JSON_NAMES.get(name, name): _serialize_field(name, v)
        for name, v in values.items()
    }


def _serialize_field(name: str, value: Any) -> Any:
    if value is None or (value == "" and name in NULL_IF_EMPTY):
        return None
    if name == "superseded_by_id":
        return public_ids.format_fact_id(uuid.UUID(value))
    if name in TIME_FIELDS:
        return format_time(datetime.fromisoformat(value))
    return value
