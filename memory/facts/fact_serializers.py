"""A fact and its history as clients are told of them.

`created_at` and `updated_at` are seconds since 1970, as in OpenAI's objects; every
other instant is ISO 8601 in UTC.
"""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from core.text.timestamps import instant
from memory.facts import public_ids
from memory.types import Change, KnownFact


def fact(known: KnownFact) -> dict[str, Any]:
    """Return a fact as a `memory` object."""
    ends = known.superseded_by
    return {
        "id": public_ids.write(known.id),
        "object": "memory",
        "content": known.content,
        "category": known.category,
        "key": known.key,
        "importance": known.importance,
        "status": known.status,
        "pinned": known.is_pinned,
        "source": known.source,
        "agent": known.agent or None,
        "quote": known.quote or None,
        "said_at": instant(known.said_at),
        "valid_from": instant(known.valid_from),
        "valid_to": instant(known.valid_to),
        "expires_at": instant(known.expires_at),
        "superseded_by": public_ids.write(ends) if ends else None,
        "created_at": seconds(known.created_at),
        "updated_at": seconds(known.updated_at),
    }


def change(step: Change) -> dict[str, Any]:
    """Return a step of a fact's history as a `memory.change` object."""
    return {
        "object": "memory.change",
        "at": instant(step.at),
        "action": step.action,
        "by": step.by,
        "reason": step.reason or None,
        "before": _fields(step.before),
        "after": _fields(step.after),
    }


def seconds(at: datetime) -> int:
    """Return an instant in seconds since 1970."""
    return int(at.timestamp())


NAMES = {"is_pinned": "pinned", "superseded_by_id": "superseded_by"}
INSTANTS = {"said_at", "valid_from", "valid_to", "expires_at"}
EMPTY_IS_NULL = {"agent", "quote"}


def _fields(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if values is None:
        return None
    return {NAMES.get(name, name): _field(name, v) for name, v in values.items()}


def _field(name: str, value: Any) -> Any:
    if value is None or (value == "" and name in EMPTY_IS_NULL):
        return None
    if name == "superseded_by_id":
        return public_ids.write(uuid.UUID(value))
    if name in INSTANTS:
        return instant(datetime.fromisoformat(value))
    return value
