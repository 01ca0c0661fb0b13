"""The columns of lists and the fields of detail pages, as text and HTML."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.admin.utils import label_for_field, lookup_field
from django.db.models import Model
from django.utils.html import format_html
from django.utils.safestring import SafeString

from admin_base.templatetags.studio import NO_VALUE, ago, readable_value
from core.text import redaction


class Column(NamedTuple):
    name: str
    label: str
    css: str
    sort: str
    """The query parameter that sorts by it; "" if it cannot be sorted by."""
    direction: str
    """`ascending` or `descending` if the list is sorted by it."""


def column(label: str, *, sort: str = "", css: str = "") -> Callable[[Any], Any]:
    """Declare a method of a `StudioModelAdmin` as a column.

    `sort` is the field that sorts it. `css` has classes: `number`, `long`, and
    `is-wide` for a column that phones hide.
    """

    def declare(method: Any) -> Any:
        method.short_description = label
        method.admin_order_field = sort or None
        method.css = css
        return method

    return declare


def link(address: str, text: Any) -> SafeString:
    """Return a link to another page of the studio, for a column."""
    return format_html('<a href="{}">{}</a>', address, text)


def display_value(name: str, row: Model, model_admin: Any) -> Any:
    """Return the value of a field, property or column of a row, as pages show it."""
    field, _, value = lookup_field(name, row, model_admin)
    if field is not None and getattr(field, "flatchoices", None):
        return dict(field.flatchoices).get(value, value)
    return display(value)


def display(value: Any) -> Any:
    """Return a value as pages show it; HTML and text stay as they are."""
    if isinstance(value, str):
        return value or NO_VALUE
    if isinstance(value, datetime):
        return ago(value)
    if isinstance(value, Model):
        return redaction.redact_own(str(value))
    return readable_value(value)


def label_of(name: str, model_admin: Any) -> str:
    """Return the label of a field, property or column."""
    label = str(label_for_field(name, model_admin.model, model_admin))
    return label[:1].upper() + label[1:]
