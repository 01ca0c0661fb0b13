"""Compares the rows of both databases."""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import NamedTuple

from django.db.models import Model

from database.transfer import digests, rows
from database.transfer.databases import SOURCE, TARGET
from database.transfer.digests import TableDigest

MAX_KEYS = 5
"""Keys of differing rows that a report names."""


class TableComparison(NamedTuple):
    """A table on both databases."""

    table: str
    source: TableDigest
    target: TableDigest
    different_keys: list[str]
    """Of some rows that differ, or that one database lacks."""

    @property
    def is_equal(self) -> bool:
        return self.source == self.target


def compare_all(on_rows: Callable[[int], None]) -> Iterator[TableComparison]:
    """Compare all tables; calls `on_rows` with the size of each batch that was read."""
    for model in rows.list_models():
        source = digests.digest_table(model, SOURCE, on_rows)
        target = digests.digest_table(model, TARGET, on_rows)
        keys = [] if source == target else _find_differences(model)
        yield TableComparison(model._meta.db_table, source, target, keys)


def _find_differences(model: type[Model]) -> list[str]:
    missing = chain(
        _unmatched(model, SOURCE, TARGET), _unmatched(model, TARGET, SOURCE)
    )
    return sorted(set(islice(missing, MAX_KEYS)))


def _unmatched(model: type[Model], alias: str, other: str) -> Iterator[str]:
    """Yield the keys of rows that the other database has not, or not so."""
    names = digests.comparable_names(model)
    pk = model._meta.pk.attname
    for batch in rows.read_batches(rows.rows_of(model, alias), names):
        keys = [getattr(row, pk) for row in batch]
        matches = rows.rows_of(model, other).filter(pk__in=keys)
        theirs = {
            digests.digest_row(row, names)
            for part in rows.read_batches(matches, names)
            for row in part
        }
        for row in batch:
            if digests.digest_row(row, names) not in theirs:
                yield rows.key_text(model, row)
