"""Format tables for the terminal."""

from collections.abc import Collection, Iterator, Sequence


def table_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()
) -> Iterator[str]:
    """Yield the lines of a table; the columns in `right` are right-aligned."""
    table = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
