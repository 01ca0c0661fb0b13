"""Tables as CSV, streamed while they are written."""

import csv
from collections.abc import AsyncIterator, Iterable, Sequence
from io import StringIO
from itertools import islice
from typing import Any

import orjson
from django.http import StreamingHttpResponse

LINES_PER_CHUNK = 500
"""Lines per chunk."""
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")
"""Spreadsheets evaluate a text that begins with one of these as a formula."""


def csv_response(name: str, chunks: AsyncIterator[Any]) -> StreamingHttpResponse:
    """Return a table as a download with a file name."""
    return StreamingHttpResponse(
        chunks,
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def csv_chunks(
    head: Sequence[str], rows: Iterable[Iterable[Any]]
) -> AsyncIterator[str]:
    yield format_lines([head])
    remaining = iter(rows)
    while lines := list(islice(remaining, LINES_PER_CHUNK)):
        yield format_lines(lines)


def format_lines(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as lines."""
    out = StringIO()
    writer = csv.writer(out)
    for row in rows:
        writer.writerow([escape_cell(value) for value in row])
    return out.getvalue()


def escape_cell(value: Any) -> Any:
    """Return a value that a spreadsheet shows as text and does not evaluate."""
    if isinstance(value, dict | list | tuple):
        return orjson.dumps(value, default=str).decode()
    if isinstance(value, str) and value.startswith(FORMULA_PREFIXES):
        return f"'{value}"
    return "" if value is None else value
