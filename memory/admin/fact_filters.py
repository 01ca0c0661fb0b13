"""Filters of the lists of facts."""

from typing import Any

from django.http import HttpRequest

from admin_base.filters import ChoiceFilter
from core.errors import Invalid
from memory.models import FactStatus

HELD_FOR = "held_for"
SCOPES = ("facts", "messages", "all")


class StatusFilter(ChoiceFilter):
    """Facts with a status now: active ones, unless another is named."""

    parameter = "status"
    description = "Active by default; with `held_for` those pending review."
    options = (*FactStatus.values, "all")
    empty_label = ""

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        is_held = request.GET.get(HELD_FOR)
        self.default = FactStatus.PENDING_REVIEW if is_held else FactStatus.ACTIVE
        super().__init__(request, *args)

    @property
    def value(self) -> str:
        return super().value or self.default

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
