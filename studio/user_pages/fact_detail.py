"""One fact about a user, with its history: correct, pin or forget it."""

from collections.abc import Mapping
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from core.errors import NotFound
from core.text import redaction
from memory.api.schemas import DeletedMemory, MemoryChange, MemoryObject
from memory.facts import fact_serializers, fact_store, public_ids
from memory.facts.types import StoredFact
from memory.recall import sync_search
from studio.user_pages.base_view import UserView
from studio.user_pages.fact_list import ACTOR, CATEGORIES, redact_fact
from studio.user_pages.schemas import FactChanges

CLEARABLE_FIELDS = ("key", "valid_from", "valid_to", "expires_at")
"""Fields that an empty form field clears."""


class FactWithHistory(MemoryObject):
    """A fact with its history, oldest first."""

    history: list[MemoryChange]


class FactView(UserView):
    """`/admin/users/{user}/facts/{id}`."""

    template = "studio/memory/fact.html"
    title = "Fact"

    @extend_schema(summary="Show a fact and its history", responses=FactWithHistory)
    def get(self, request: Request, user: str, id: str) -> Response:
        """Return a fact with its history."""
        return self.respond(self._serialize_fact(), page=self._page_context)

    @extend_schema(summary="Change a fact", request=FactChanges, responses=MemoryObject)
    def patch(self, request: Request, user: str, id: str) -> HttpResponseBase:
        """Edit, pin, suspend or restore a fact."""
        body = self.parse_body(FactChanges)
        fact, changes = self._find_fact(), body.changes()
        if changes:
            vector = sync_search.embed_changed_fact(fact.content, changes)
            updated_at, name = fact.updated_at, public_ids.format_fact_id(fact.id)
            event = self.audit_event("memory.change", name, fields=[*changes])
            fact = audit_log.run_recorded(
                lambda now: event if now.updated_at != updated_at else None,
                fact_store.edit_fact,
                self.user_id,
                fact.id,
                changes,
                by=ACTOR,
                reason=body.reason,
                embedded=vector.embedded,
                error=vector.error,
            )
        return self.confirm_change(
            fact_serializers.serialize_fact(fact),
            message=_change_message(changes),
            redirect_to=self._return_url(fact),
        )

    @extend_schema(summary="Forget a fact", responses={200: DeletedMemory})
    def delete(self, request: Request, user: str, id: str) -> HttpResponseBase:
        """Remove a fact from prompts and searches; its history stays."""
        fact_id = public_ids.require_fact_id(id)
        event = self.audit_event("memory.delete", id)
        audit_log.run_recorded(
            lambda is_new: event if is_new else None,
            fact_store.soft_delete_fact,
            self.user_id,
            fact_id,
            by=ACTOR,
        )
        name = public_ids.format_fact_id(fact_id)
        data = {"id": name, "object": "memory.deleted", "deleted": True}
        return self.confirm_change(
            data, message="Fact forgotten", redirect_to=f"{self.user_url}/facts"
        )

    def body_data(self) -> Any:
        """Return the body; empty fields of the full form clear their values."""
        data = super().body_data()
        if self.is_form and "content" in data:
            data = {**dict.fromkeys(CLEARABLE_FIELDS), "pinned": False, **data}
        if self.is_form:
            data.pop("back", None)
        return data

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the fact with the submitted values, if it exists."""
        try:
            return {
                **self._serialize_fact(),
                **self._page_context(),
                "form_data": self.body_data(),
            }
        except NotFound:
            return None

    def _find_fact(self) -> StoredFact:
        return fact_store.get_fact(
            self.user_id, public_ids.require_fact_id(self.kwargs["id"])
        )

    def _serialize_fact(self) -> dict[str, Any]:
        fact = self._find_fact()
        changes = fact_store.list_changes(self.user_id, fact.id)
        history = [
            _redact_change(fact_serializers.serialize_change(change))
            for change in changes
        ]
        return {**redact_fact(fact), "history": history}

    def _page_context(self) -> dict[str, Any]:
        context = self.user_context()
        breadcrumbs = [*context["breadcrumbs"], ("Memory", f"{self.user_url}/facts")]
        return {
            **context,
            "breadcrumbs": breadcrumbs,
            "tab": "memory",
            "categories": CATEGORIES,
        }

    def _return_url(self, fact: StoredFact) -> str:
        """Return the redirect target: the list, if the form came from there."""
        if self.is_form and self._form_fields().get("back"):
            return f"{self.user_url}/facts"
        return f"{self.user_url}/facts/{public_ids.format_fact_id(fact.id)}"


def _change_message(changes: Mapping[str, Any]) -> str:
    if set(changes) == {"is_pinned"}:
        return "Fact pinned" if changes["is_pinned"] else "Fact unpinned"
    if set(changes) == {"status"}:
        return (
            "Fact restored" if changes["status"] == "active" else "Fact sent to review"
        )
    return "Fact saved"


def _redact_change(change: dict[str, Any]) -> dict[str, Any]:
    for values in filter(None, (change["before"], change["after"])):
        for name, value in values.items():
            values[name] = (
                redaction.redact_own(value) if isinstance(value, str) else value
            )
    return change
