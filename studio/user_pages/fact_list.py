"""The facts about a user: list, search as in recall, add."""

import uuid
from collections.abc import Mapping
from typing import Any, get_args

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel, RootModel
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from config import live
from core.errors import CoulisseError
from core.text import redaction
from memory import memory_settings
from memory.api import serializers
from memory.api.schemas import MAX_QUERY_LENGTH, FoundList, MemoryObject, SavedMemory
from memory.facts import fact_serializers, fact_store, public_ids
from memory.facts.types import Category, Status, StoredFact
from memory.recall import query_preparation, sync_search
from memory.user_data import user_queries
from studio.base.pagination import parse_cursor, serialize_page
from studio.base.query_parameters import query_choice
from studio.user_pages.base_view import AFTER_PARAMETER, UserView
from studio.user_pages.schemas import NewFact

ACTOR = "operator"
PAGE_SIZE = 50
MAX_FOUND = 20
SEARCH_SCOPES = ("facts", "messages", "all")
CATEGORIES = get_args(Category)
STATUSES = (*get_args(Status), "all")


class FactList(BaseModel):
    """A page of facts, newest first."""

    object: str = "list"
    data: list[MemoryObject]
    has_more: bool
    last_id: str | None


class FactsOrFound(RootModel[FactList | FoundList]):
    """A page of facts; with `q` the results of a search."""


class FactListView(UserView):
    """`/admin/users/{user}/facts`."""

    title = "Memory"
    template = "studio/memory/facts.html"

    @extend_schema(
        operation_id="users_facts_list",
        summary="List what is known of a user, or search it as a turn recalls it",
        parameters=[
            OpenApiParameter("q", str, description="Searches, and tells by what."),
            OpenApiParameter(
                "in",
                str,
                enum=SEARCH_SCOPES,
                description="What to search: facts by default.",
            ),
            OpenApiParameter("category", str, enum=CATEGORIES),
            OpenApiParameter(
                "status", str, enum=STATUSES, description="Of lists: active by default."
            ),
            OpenApiParameter(
                "limit", int, description="Of searches: 20 by default, at most 100."
            ),
            AFTER_PARAMETER,
        ],
        responses=FactsOrFound,
    )
    def get(self, request: Request, user: str) -> Response:
        """List facts, newest first; with `q` the best matches, with their scores."""
        return list_or_search(self)

    @extend_schema(
        operation_id="users_facts_create",
        summary="Add a fact by hand",
        request=NewFact,
        responses={201: SavedMemory},
    )
    def post(self, request: Request, user: str) -> HttpResponseBase:
        """Add a fact; a duplicate is not stored twice."""
        new = self.parse_body(NewFact)
        gone = (
            None
            if new.supersedes is None
            else public_ids.require_fact_id(new.supersedes)
        )
        draft = new.to_fact_draft("operator", supersedes=gone)
        vector = sync_search.embed_fact(new.content)
        (saved,) = audit_log.run_recorded(
            query_preparation.with_saved_fact(
                self.audit_event("memory.create", "memory")
            ),
            fact_store.save_drafts,
            self.user_id,
            [draft],
            [vector.embedded],
            by=ACTOR,
            threshold=query_preparation.dedup_threshold(),
            errors=[vector.error],
        )
        fact = fact_store.get_fact(self.user_id, saved.fact_id)
        return self.confirm_change(
            serializers.serialize_saved(fact, saved),
            message=OUTCOME_MESSAGES[saved.outcome],
            redirect_to=f"{self.user_url}/facts",
            status=201,
        )

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the list with the submitted fact, if the user exists."""
        try:
            return {
                **_list_facts(self),
                **_page_context(self),
                "form_data": self.body_data(),
            }
        except CoulisseError:
            return None


OUTCOME_MESSAGES = {
    "created": "Remembered",
    "pending_review": "Saved for review: prompts do not contain it until it is active",
    "outdated": "Kept as the past: something newer is known",
    "superseded": "Remembered; what was known before is no longer so",
    "unchanged": "This was known already",
    "updated": "Updated what was known already",
}


def list_or_search(face: UserView) -> Response:
    """Return the facts of a query."""
    text = face.request.query_params.get("q", "").strip()[:MAX_QUERY_LENGTH]
    if not text:
        return face.respond(_list_facts(face), page=lambda: _page_context(face))
    limit = face.query_int("limit", default=MAX_FOUND, most=100)
    found = sync_search.search_memory(
        face.user_id,
        text,
        # A page shows both, as recall searches both.
        scope=query_choice(face, "in", SEARCH_SCOPES)
        or ("all" if face.wants_html else "facts"),
        category=query_choice(face, "category", CATEGORIES),
        limit=limit,
    )
    data = serializers.serialize_hits(
        found.facts,
        found.messages,
        found.prepared,
        limit=len(found.facts) + len(found.messages),
        explain=True,
    )

    for each in data["data"]:
        each["content"] = redaction.redact_own(each["content"])

    def shown() -> dict[str, Any]:
        told = sync_search.memory_prompt(face.user_id, found)
        return {
            **_page_context(face),
            "query": text,
            "recall_block": redaction.redact_own(told),
        }

    return face.respond(data, page=shown)


def _list_facts(face: UserView) -> dict[str, Any]:
    status: Any = query_choice(face, "status", STATUSES) or "active"
    found, has_more = fact_store.page_facts(
        face.user_id,
        status=None if status == "all" else status,
        category=query_choice(face, "category", CATEGORIES),
        after=parse_cursor(face.request.query_params.get("after"), uuid.UUID),
        limit=PAGE_SIZE,
    )
    last = (found[-1].created_at, found[-1].id) if found else None
    return serialize_page(
        [redact_fact(fact) for fact in found], has_more=has_more, last=last
    )


def redact_fact(fact: StoredFact) -> dict[str, Any]:
    """Return a fact with our own secrets redacted."""
    told = fact_serializers.serialize_fact(fact)
    told["content"] = redaction.redact_own(told["content"])
    told["quote"] = told["quote"] and redaction.redact_own(told["quote"])
    return told


def _page_context(face: UserView) -> dict[str, Any]:
    """Return the additional context of the page."""
    return {
        **face.user_context(),
        "tab": "memory",
        "categories": CATEGORIES,
        "statuses": STATUSES,
        "by_category": user_queries.count_facts_by_category(face.user_id),
        "is_on": memory_settings.resolve_for_users(live.current()) is not None,
    }
