"""Spending of many users or tokens, sent page by page in bounded memory.

A page depends only on the end of the last one, so no database connection is held while
the client reads.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import orjson

from admin_base.formats import csv_export
from config import live
from telemetry.presentation import spend_table
from telemetry.presentation.spend_schemas import SpendRow, SpendTotal
from telemetry.statistics import cost_totals
from telemetry.statistics.cost_totals import CostTotal, Dimension, SpendFilter

PAGE_SIZE = 5_000
"""Rows of a page. More users are in the order of their ids; other rows by cost."""


@dataclass(frozen=True, slots=True)
class SpendExport:
    """The rows of a query, from a page on."""

    by: Dimension
    since: datetime
    chosen: SpendFilter
    """With an end, so that all pages sum up the same turns."""
    notes: Sequence[str]
    rows: Sequence[CostTotal]
    after: Any
    """None if there is no further page."""
    is_first: bool = True
    total: CostTotal = field(default_factory=lambda: CostTotal(None))
    """Of the pages before."""

    @classmethod
    def start(
        cls, by: Dimension, since: datetime, chosen: SpendFilter, notes: Sequence[str]
    ) -> "SpendExport":
        """Return the first page."""
        if chosen.until is None and by in ("token", "user"):
            chosen = replace(chosen, until=datetime.now(UTC))
        config = live.current()
        after: Any
        rows, after = cost_totals.read_page(
            by, since, chosen, config=config, limit=PAGE_SIZE
        )
        if after is not None and by == "user":
            rows, after = cost_totals.read_users(since, chosen, limit=PAGE_SIZE)
        return cls(by, since, chosen, notes, rows, after)

    def next(self) -> "SpendExport":
        """Read the next page."""
        page: Any
        given: dict[str, Any] = {"limit": PAGE_SIZE, "after": self.after}
        if self.by == "user":
            page = cost_totals.read_users(self.since, self.chosen, **given)
        else:
            page = cost_totals.read_page(self.by, self.since, self.chosen, **given)
        total = cost_totals.sum_totals([self.total, *self.rows])
        rows, after = page
        return replace(self, rows=rows, after=after, total=total, is_first=False)

    def json_chunk(self) -> bytes:
        """Return the page's part of the document of `Spending`."""
        opening, ending = b"", b""
        if self.is_first:
            since = self.since.astimezone(UTC)
            head = {"object": "spending", "by": self.by, "since": since}
            opening = orjson.dumps(head, option=orjson.OPT_UTC_Z)[:-1] + b',"data":['
        elif self.rows:
            opening = b","
        if self.after is None:
            total = cost_totals.sum_totals([self.total, *self.rows])
            rest = {"total": self._total(total), "notes": self.notes}
            ending = b"]," + orjson.dumps(rest)[1:]
        rows = b",".join(map(orjson.dumps, self.lines(self.rows)))
        return opening + rows + ending

    def csv_chunk(self) -> bytes:
        """Return the page's part of the table."""
        columns = self.columns()
        names = spend_table.token_names(self.by, self.rows)
        head = [columns] if self.is_first else []
        rows = self.csv_rows(self.rows, names, columns)
        return csv_export.format_lines([*head, *rows]).encode()

    def csv_rows(
        self,
        totals: Iterable[CostTotal],
        names: Mapping[str, str],
        columns: Sequence[str],
    ) -> Iterator[Any]:
        """Yield the cells of rows."""
        for row in self.lines(totals):
            usd = {key: f"{row[key]:.6f}" for key in row if key.endswith("_usd")}
            yield itemgetter(*columns)(
                {**row, "name": names.get(row[self.by], ""), **usd}
            )

    def lines(self, totals: Iterable[CostTotal]) -> Iterator[dict[str, Any]]:
        """Yield the JSON of rows."""
        for total in totals:
            keys = {self.by: total.key, "kind": total.kind}
            yield SpendRow.of(self.by, total, **keys).model_dump(exclude_unset=True)

    def columns(self) -> list[str]:
        """Return the columns of the CSV."""
        names = ["name"] if self.by == "token" else []
        return [self.by, *names, "kind", *self._total(CostTotal(None))]

    def _total(self, total: CostTotal) -> dict[str, Any]:
        return SpendTotal.of(self.by, total).model_dump(exclude_unset=True)


def write_chunk(page: SpendExport, as_csv: bool) -> tuple[bytes, SpendExport | None]:
    """Return the text of a page, and the next page."""
    chunk = page.csv_chunk() if as_csv else page.json_chunk()
    return chunk, None if page.after is None else page.next()
