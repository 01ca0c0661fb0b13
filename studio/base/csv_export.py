"""Tables as CSV, sent as they are written."""

import csv
from collections.abc import AsyncIterator, Iterable, Sequence
from io import StringIO
from typing import Any

from django.http import StreamingHttpResponse

AT_ONCE = 500
"""Lines of one piece."""
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet takes a text for something to reckon."""


def download(
    name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]
) -> StreamingHttpResponse:
    """Return a table to be saved under a name."""
    return StreamingHttpResponse(
        pieces(head, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def pieces(
    head: Sequence[str], rows: Iterable[Sequence[Any]]
) -> AsyncIterator[str]:
    """Yield a table, some lines at a time."""
    out = StringIO()
    lines = csv.writer(out)
    lines.writerow(head)
    for number, row in enumerate(rows, start=1):
        lines.writerow([cell(value) for value in row])
        if number % AT_ONCE == 0:
            yield _taken(out)
    yield _taken(out)


def _taken(out: StringIO) -> str:
    text = out.getvalue()
    out.seek(0)
    out.truncate()
    return text


def cell(value: Any) -> Any:
    """Return a value as a spreadsheet shows it and does nothing else with it."""
    if isinstance(value, str) and value.startswith(FORMULAS):
        return f"'{value}"
    return "" if value is None else value
