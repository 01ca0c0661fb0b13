"""Pages of lists that continue after the last row of the page before."""

from typing import Any

from django.db.models import Q


def later_rows(
    field: str, cursor: tuple[Any, Any] | None, *, is_descending: bool = True
) -> Q:
    """Return the condition for the rows after a cursor: a field's value, and the key.

    The rows are in the order of the field, then of the key, newest first by default.
    None stands before the first row.
    """
    if cursor is None:
        return Q()
    value, key = cursor
    step = "lt" if is_descending else "gt"
    later = Q(**{f"{field}__{step}": value}) | Q(**{f"pk__{step}": key})
    # The second condition lets databases start within the index.
    return later & Q(**{f"{field}__{step}e": value})
