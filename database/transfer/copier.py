"""Copies the rows of all tables to the target, and continues where a run ended."""

from collections.abc import Callable, Sequence
from typing import Any

from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    connection,
    connections,
    transaction,
)
from django.db.models import Model

from database.errors import TransferFailed
from database.transfer import rows, target
from database.transfer.databases import SOURCE, TARGET
from database.transfer.progress import StepProgress, TransferProgress
from database.transfer.rows import Row


def copy_all(on_rows: Callable[[int], None]) -> None:
    """Copy the rows that an earlier run has not; `on_rows` gets the size of a batch."""
    for model in rows.list_models():
        _copy_table(model, on_rows)
        for field in rows.own_references(model):
            _copy_references(model, field.attname)
    target.finish()


def _copy_table(model: type[Model], on_rows: Callable[[int], None]) -> None:
    def write(batch: list[Row]) -> None:
        for field in rows.own_references(model):
            for row in batch:
                setattr(row, field.attname, None)
        _convert(model, batch)
        _insert(model, batch)

    names = [field.attname for field in rows.list_fields(model)]
    _run_step(model._meta.label, model, names, write, on_rows)


def _copy_references(model: type[Model], name: str) -> None:
    """Set references to rows of the same table, once all of these exist."""

    def write(batch: list[Row]) -> None:
        objects = [model(**vars(row)) for row in batch if getattr(row, name)]
        rows.rows_of(model, TARGET).bulk_update(objects, [name.removesuffix("_id")])

    names = [model._meta.pk.attname, name]
    _run_step(f"{model._meta.label}.{name}", model, names, write, lambda _: None)


def _run_step(
    step: str,
    model: type[Model],
    names: Sequence[str],
    write: Callable[[list[Row]], None],
    on_rows: Callable[[int], None],
) -> None:
    """Write the batches of a table with their progress, after the last stored one."""
    stored = TransferProgress(TARGET)
    key, count, is_done = stored.read(step)
    on_rows(count)
    if is_done:
        return
    try:
        for batch in rows.read_batches(rows.rows_of(model, SOURCE), names, key):
            with transaction.atomic():
                write(batch)
                key = rows.key_text(model, batch[-1])
                count += len(batch)
                stored.store(step, StepProgress(key, count))
            on_rows(len(batch))
        stored.store(step, StepProgress(key, count, is_done=True))
    except DatabaseError as exc:
        raise TransferFailed(
            f"cannot copy {model._meta.db_table}: {exc}".strip()
            + "; run the same command again to continue"
        ) from exc


def _convert(model: type[Model], batch: list[Row]) -> None:
    """Rewrite the columns whose contents depend on the database, such as words."""
    manager: Any = model._default_manager
    vendor = connection.vendor
    if vendor != connections[SOURCE].vendor and hasattr(manager, "convert_rows"):
        manager.using(SOURCE).convert_rows(batch, vendor)


def _insert(model: type[Model], batch: list[Row]) -> None:
    """Insert rows; name the one that the target refuses."""
    try:
        with transaction.atomic():
            rows.insert(model, batch)
    except (DataError, IntegrityError):
        for row in batch:
            try:
                with transaction.atomic():
                    rows.insert(model, [row])
            except (DataError, IntegrityError) as exc:
                raise TransferFailed(
                    f"{model._meta.db_table}: the target refuses the row "
                    f"{rows.key_text(model, row)}: {exc}".strip()
                ) from exc
        raise
