"""Filters of the lists of facts."""

from typing import Any

from admin_base.filters import ChoiceFilter
from core.errors import Invalid
from memory.models import FactStatus

SCOPES = ("facts", "messages", "all")


class StatusFilter(ChoiceFilter):
    """Facts with a status now: active ones, unless another is named."""

    parameter = "status"
    description = "Active by default."
    options = (*FactStatus.values, "all")
    empty_label = ""

    @property
    def value(self) -> str:
        return super().value or FactStatus.ACTIVE

    def apply(self, queryset: Any, value: str) -> Any:
        super().apply(queryset, value)  # Refuses unknown ones.
        return queryset.with_status(None if value == "all" else value)


class ScopeFilter(ChoiceFilter):
    """What `q` searches."""

    parameter = "in"
    title = "Search in"
    description = "The scope of a search; facts by default."
    options = SCOPES
    empty_label = "facts and messages"

    def apply(self, queryset: Any, value: str) -> Any:
        if value not in SCOPES:
            raise Invalid(f"'in' must be one of {', '.join(SCOPES)}", param="in")
        return queryset
