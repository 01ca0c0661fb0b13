"""Rows of every model, derived from its fields, so that no new table is forgotten."""

import uuid
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from django.db import models, transaction
from timezone_field import TimeZoneField

from database.transfer import rows
from memory.models import Passage
from memory.models.fields import TermsField, VectorField
from memory.recall.index.term_encoding import hash_terms
from memory.recall.index.tokenizer import tokenize

FIRST_KEY = 1_000
"""Above the keys of rows that `migrate` adds."""
TEXT = "é'\"\\ \t\n%s 漢字 😀 "
LIMITED = {
    "ApiToken.budget": "total",
    "Expense.purpose": "judge",
    "Fact.importance": 7,
    "Feedback.score": 0,
    "Feedback.thumb": None,
    "Incident.stage": "after",
    "ModelCall.parent_position": None,
    "Override.is_tombstone": False,
    "Score.origin": "chat",
    "Session.score": 3,
    "SmokeMessage.speaker": "persona",
    "SmokeRun.state": "done",
    "Task.state": "done",
    "ToolCall.kind": "mcp",
    "ToolCall.parent_position": None,
    "Turn.origin": "chat",
    "Turn.outcome": "ok",
    "UserNamespace.id": 1,
}
"""Values that constraints demand."""
SINGLE = {"UserNamespace"}

JSON = {"z": [1, 2.5, None, 1e20, -0.0, True], "a": {"ü": "\\ud83d 😀"}, "": []}


@transaction.atomic
def add_rows(count: int = 3) -> dict[type[models.Model], list[Any]]:
    """Store rows of every model in the default database; return their keys."""
    keys: dict[type[models.Model], list[Any]] = defaultdict(list)
    for model in rows.list_models():
        total = 1 if model.__name__ in SINGLE else count
        planned = [_own_key(model, keys, n) for n in range(total)]
        for n in range(total):
            values = {
                field.attname: _value(field, keys, planned, n)
                for field in rows.list_fields(model)
                if not field.generated
            }
            row = model(**values)
            # Without parents, and with values as they are.
            row.save_base(raw=True, force_insert=True)
            keys[model].append(row.pk)
    return keys


def _own_key(model: Any, keys: Any, n: int) -> Any:
    return _value(model._meta.pk, keys, [], n)


def _value(field: Any, keys: Any, planned: list[Any], n: int) -> Any:
    model = field.model
    if (name := f"{model.__name__}.{field.attname}") in LIMITED:
        return LIMITED[name]
    if model is Passage and field.attname == ("fact_id", "message_id")[n % 2]:
        return None
    if field.related_model is model:
        return planned[(n + 1) % len(planned)]  # The next row, which comes later.
    if field.is_relation:
        others = keys[field.related_model._meta.concrete_model]
        return others[n % len(others)]
    if field.choices:
        return field.choices[n % len(field.choices)][0]
    return _plain_value(field, n)


def _plain_value(field: Any, n: int) -> Any:
    if isinstance(field, TermsField):
        if field.null:
            return None  # SQLite has no windows.
        # The words of the message or the fact.
        return hash_terms(tokenize(_text("content" if n % 2 else "text", n))).tobytes()
    if isinstance(field, models.CharField | models.TextField):
        return _text(field.name, n)[: field.max_length]
    for kind, make in VALUES.items():
        if isinstance(field, kind):
            return make(n)
    raise AssertionError(f"no sample value for {field!r}: add one")


def _text(name: str, n: int) -> str:
    return f"{name[:8]}{n} {TEXT}"


VALUES = {
    models.BinaryField: lambda n: bytes([0, 255, n]),
    models.BooleanField: lambda n: bool(n % 2),
    models.DateTimeField: lambda n: datetime(2026, 2, 3, 4, 5, 6, 123_457 + n, UTC),
    models.DecimalField: lambda n: Decimal("-1.250000") + n,
    models.FloatField: lambda n: 0.1 + n,
    models.JSONField: lambda n: {**JSON, "n": n},
    models.SmallIntegerField: lambda n: 2 + n,
    models.PositiveSmallIntegerField: lambda n: 2 + n,
    models.IntegerField: lambda n: FIRST_KEY + n,
    models.UUIDField: lambda n: uuid.uuid5(uuid.NAMESPACE_OID, str(n)),
    TimeZoneField: lambda n: ZoneInfo("Europe/Berlin"),
    VectorField: lambda n: np.array([0.1, -1 / 3, 1e-30, 7 + n], np.float32),
}
