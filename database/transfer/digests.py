"""Digests of a table's rows that are equal on all databases."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from django.db import connections
from django.db.models import Model

from database.transfer import rows
from database.transfer.databases import SOURCE, TARGET
from database.transfer.rows import Row

DIGEST_BYTES = 16
MODULUS = 1 << (8 * DIGEST_BYTES)


class TableDigest(NamedTuple):
    """The number of rows, and the sum of their digests.

    A sum does not depend on the order: databases sort texts differently.
    """

    row_count: int
    digest: str


def digest_table(
    model: type[Model], alias: str, on_rows: Callable[[int], None]
) -> TableDigest:
    """Read a whole table; calls `on_rows` with the size of each batch."""
    names = comparable_names(model)
    count = total = 0
    for batch in rows.read_batches(rows.rows_of(model, alias), names):
        count += len(batch)
        total += sum(digest_row(row, names) for row in batch)
        on_rows(len(batch))
    return TableDigest(count, f"{total % MODULUS:0{2 * DIGEST_BYTES}x}")


def comparable_names(model: type[Model]) -> list[str]:
    """Return the names of the fields that have equal values on both databases."""
    is_same = connections[SOURCE].vendor == connections[TARGET].vendor
    return [
        field.attname
        for field in rows.list_fields(model)
        if is_same or not getattr(field, "depends_on_database", False)
    ]


def digest_row(row: Row, names: Sequence[str]) -> int:
    """Return the digest of some values of a row."""
    values = [normalize(getattr(row, name)) for name in names]
    text = repr(values).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=DIGEST_BYTES).digest())


def normalize(value: Any) -> Any:
    """Return the same value for what databases and their drivers return differently."""
    convert = NORMALIZERS.get(type(value))
    return value if convert is None else convert(value)


def _normalize_number(value: float) -> float | int:
    # `jsonb` returns 1e20 as an integer, and SQLite stores -0.0 as 0.
    return int(value) if value.is_integer() else value


def _normalize_json(value: Any) -> str:
    # `jsonb` does not keep the order of keys.
    return json.dumps(_normalize_numbers(value), sort_keys=True)


def _normalize_numbers(value: Any) -> Any:
    match value:
        case dict():
            return {key: _normalize_numbers(each) for key, each in value.items()}
        case list():
            return [_normalize_numbers(each) for each in value]
        case float():
            return _normalize_number(value)
    return value


NORMALIZERS: dict[type, Callable[[Any], Any]] = {
    datetime: lambda value: value.astimezone(UTC).isoformat(),
    Decimal: lambda value: format(value.normalize(), "f"),
    ZoneInfo: str,
    dict: _normalize_json,
    float: _normalize_number,
    list: _normalize_json,
    memoryview: bytes,
    np.ndarray: lambda value: value.tobytes(),
}
