"""Requests and responses of the studio about facts, besides those of `memory.api`."""

from typing import Any

from pydantic import ConfigDict, Field, RootModel, field_validator

from admin_base.serializers import page_schema
from memory.api.schemas import (
    FactChangeFields,
    FactDates,
    MemoryObject,
    NewFactFields,
    SearchResultList,
)

OUTCOME_MESSAGES = {
    "created": "Fact added",
    "pending_review": "Fact added for review; prompts do not include it until then",
    "outdated": "Fact added to the history, since a newer fact replaces it",
    "superseded": "Fact added; it replaces an existing fact",
    "unchanged": "The fact exists already",
    "updated": "Existing fact updated",
}


class DayDates(FactDates):
    """Dates may be days, which begin in UTC."""

    model_config = ConfigDict(extra="forbid")

    @field_validator("valid_from", "valid_to", "expires_at", mode="before")
    @classmethod
    def _read_day(cls, value: Any) -> Any:
        is_day = isinstance(value, str) and len(value) == len("2026-01-31")
        return f"{value}T00:00:00Z" if is_day else value


class NewFact(DayDates, NewFactFields):
    """A fact that an operator adds."""

    supersedes: str | None = Field(
        default=None, description="The id of the fact that this one replaces."
    )


class FactChanges(DayDates, FactChangeFields):
    """The changes of a fact; null clears an optional field."""


class FactListOrSearchResults(
    RootModel[page_schema(MemoryObject) | SearchResultList]  # type: ignore[misc]  # built at runtime
):
    """A page of facts; with `q` the results of a search."""
