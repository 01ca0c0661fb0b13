"""Tables as CSV, streamed while they are written."""

import csv
from collections.abc import AsyncIterator, Iterable, Sequence
from io import StringIO
from typing import Any

import orjson
from django.http import StreamingHttpResponse

LINES_PER_CHUNK = 500
"""Lines per chunk."""
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")
"""Spreadsheets evaluate a text that begins with one of these as a formula."""


def csv_response(
    name: str, head: Sequence[str], rows: Iterable[Iterable[Any]]
) -> StreamingHttpResponse:
    """Return a table as a download with a file name."""
    return StreamingHttpResponse(
        csv_chunks(head, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def csv_chunks(
    head: Sequence[str], rows: Iterable[Iterable[Any]]
) -> AsyncIterator[str]:
    out = StringIO()
    lines = csv.writer(out)
    lines.writerow(head)
    for number, row in enumerate(rows, start=1):
        lines.writerow([escape_cell(value) for value in row])
        if number % LINES_PER_CHUNK == 0:
            yield _drain(out)
    yield _drain(out)


def _drain(out: StringIO) -> str:
    text = out.getvalue()
    out.seek(0)
    out.truncate()
    return text


def escape_cell(value: Any) -> Any:
    """Return a value that a spreadsheet shows as text and does not evaluate."""
    if isinstance(value, dict | list | tuple):
        return orjson.dumps(value, default=str).decode()
    if isinstance(value, str) and value.startswith(FORMULA_PREFIXES):
        return f"'{value}"
    return "" if value is None else value
