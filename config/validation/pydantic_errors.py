"""Locate pydantic's errors in the data and group them into messages."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import ErrorDetails

from config.sections import Location


@dataclass(frozen=True)
class LocatedError:
    details: ErrorDetails
    steps: Location
    """The error's location in the data."""
    choice: Location | None
    """The location of a union, if the error is about one of its forms."""
    form: str | int = ""


def _locate_error(details: ErrorDetails, data: Any) -> LocatedError:
    """Separate the location in the data from pydantic's names of union members."""
    steps: list[str | int] = []
    choice, form = None, ""
    missing = details["type"] == "missing"
    for index, step in enumerate(details["loc"]):
        is_below = isinstance(data, list) and isinstance(step, int)
        if is_below or (isinstance(data, dict) and step in data):
            steps.append(step)
            data = data[step]
        elif missing and index == len(details["loc"]) - 1:
            steps.append(step)
        elif choice is None:
            choice, form = tuple(steps), str(step)
    # A validator of a whole list names the entry.
    steps += details.get("ctx", {}).get("at", ())
    return LocatedError(details, tuple(steps), choice, form)


def steps_of(details: ErrorDetails, data: Any) -> Location:
    """Return an error's location in the data."""
    return _locate_error(details, data).steps


def group_errors(errors: list[ErrorDetails], data: Any) -> Iterator[list[LocatedError]]:
    """Yield groups of errors that form one message.

    For a union, pydantic reports errors for each form; only the form that was probably
    meant gets a message.
    """
    choices = defaultdict(list)
    counted = (details for details in errors if not _is_miscounted(details))
    for error in (_locate_error(details, data) for details in counted):
        if error.choice is None:
            yield [error]
        else:
            choices[error.choice].append(error)
    for location, located in choices.items():
        yield from _select_form(location, located)


def _is_miscounted(details: ErrorDetails) -> bool:
    """Whether a list is only called too short because its items are invalid.

    Pydantic counts the valid ones; the others have messages of their own.
    """
    given = details["input"]
    if details["type"] != "too_short" or not isinstance(given, list):
        return False
    context = details["ctx"]
    is_set = "set" in context["field_type"].lower()
    return not is_set and len(given) >= int(context["min_length"])


def _select_form(
    location: Location, located: list[LocatedError]
) -> list[list[LocatedError]]:
    forms = defaultdict(list)
    for error in located:
        forms[error.form].append(error)
    entered = [
        form
        for form in forms.values()
        if all(len(f.steps) > len(location) for f in form)
    ]
    if not entered:
        return [[error for error in located if error.steps == location]]
    return [[error] for error in min(entered, key=len)]
