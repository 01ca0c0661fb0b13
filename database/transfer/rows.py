"""Reading and writing the rows of any model, in batches by primary key."""

from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from types import SimpleNamespace
from typing import Any

from django.apps import apps
from django.db import connections
from django.db.models import Field, Model, QuerySet

from database.transfer.databases import TARGET

FIRST_BATCH = 50
MAX_BATCH = 2_000
MAX_BATCH_BYTES = 2_000_000
"""Approximate contents of a batch, whose rows are in memory several times."""

Row = SimpleNamespace
"""The values of a row, by the `attname` of each field."""


def list_models() -> list[type[Model]]:
    """Return the models with tables of their own, each after those it refers to.

    Proxies share a table, and unmanaged models are views.
    """
    models = [
        model
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy
    ]
    references = {model: list(_references(model)) for model in models}
    return list(TopologicalSorter(references).static_order())


def _references(model: type[Model]) -> Iterator[type[Model]]:
    for field in model._meta.local_concrete_fields:
        other = field.related_model
        if isinstance(other, type) and other is not model:
            yield other._meta.concrete_model or other


def list_fields(model: type[Model]) -> list["Field[Any, Any]"]:
    """Return the fields with a column in the model's own table."""
    return list(model._meta.local_concrete_fields)


def own_references(model: type[Model]) -> list["Field[Any, Any]"]:
    """Return the foreign keys to the same table: to rows that may come later."""
    return [f for f in list_fields(model) if f.related_model is model]


def rows_of(model: type[Model], alias: str) -> QuerySet[Model]:
    return model._base_manager.using(alias).order_by()


def read_batches(
    queryset: QuerySet[Model], names: Sequence[str], after: str | None = None
) -> Iterator[list[Row]]:
    """Yield rows in the order of their keys, after a key that `key_text` returned.

    A batch is small if its rows are large.
    """
    pk = queryset.model._meta.pk
    ordered = queryset.order_by("pk")
    last = None if after is None else pk.to_python(after)
    limit = FIRST_BATCH
    while True:
        page = ordered if last is None else ordered.filter(pk__gt=last)
        values = page.values_list(*names)[:limit]
        rows = [Row(**dict(zip(names, each, strict=True))) for each in values]
        if not rows:
            return
        yield rows
        if len(rows) < limit:
            return
        last = getattr(rows[-1], pk.attname)
        size = sum(map(_weigh, rows)) // len(rows) or 1
        limit = max(1, min(limit * 4, MAX_BATCH, MAX_BATCH_BYTES // size))


def _weigh(row: Row) -> int:
    """Return the approximate bytes of a row's long values."""
    return sum(len(value) for value in vars(row).values() if hasattr(value, "__len__"))


def key_text(model: type[Model], row: Row) -> str:
    return str(getattr(row, model._meta.pk.attname))


def insert(model: type[Model], rows: Sequence[Row]) -> None:
    """Insert rows with all their values as they are, such as keys and times."""
    fields = [field for field in list_fields(model) if not field.generated]
    limit = connections[TARGET].ops.bulk_batch_size(fields, rows)
    manager: Any = rows_of(model, TARGET)
    for start in range(0, len(rows), limit):
        # As `bulk_create` does, which refuses models that extend another one.
        part = rows[start : start + limit]
        manager._insert(part, fields=fields, using=TARGET, raw=True)
