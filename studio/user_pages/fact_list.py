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
from memory.api.schemas import (
    MAX_QUERY_LENGTH,
    MemoryObject,
    SavedMemory,
    SearchResultList,
)
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


class FactListOrSearchResults(RootModel[FactList | SearchResultList]):
    """A page of facts; with `q` the results of a search."""


class FactListView(UserView):
    """`/admin/users/{user}/facts`."""

    title = "Memory"
    template = "studio/memory/facts.html"

    @extend_schema(
        operation_id="users_facts_list",
        summary="List or search the facts about a user",
        parameters=[
            OpenApiParameter(
                "q", str, description="Search as in recall; results have their scores."
            ),
            OpenApiParameter(
                "in",
                str,
                enum=SEARCH_SCOPES,
                description="The scope of a search; facts by default.",
            ),
            OpenApiParameter("category", str, enum=CATEGORIES),
            OpenApiParameter(
                "status",
                str,
                enum=STATUSES,
                description="For lists; active by default.",
            ),
            OpenApiParameter(
                "limit", int, description="For searches; 20 by default, at most 100."
            ),
            AFTER_PARAMETER,
        ],
        responses=FactListOrSearchResults,
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
        replaced_id = (
            None
            if new.supersedes is None
            else public_ids.require_fact_id(new.supersedes)
        )
        draft = new.to_fact_draft("operator", supersedes=replaced_id)
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
    "created": "Fact added",
    "pending_review": "Fact added for review; prompts do not include it until then",
    "outdated": "Fact added to the history, since a newer fact replaces it",
    "superseded": "Fact added; it replaces an existing fact",
    "unchanged": "The fact exists already",
    "updated": "Existing fact updated",
}


def list_or_search(view: UserView) -> Response:
    """Return the facts of a query."""
    text = view.request.query_params.get("q", "").strip()[:MAX_QUERY_LENGTH]
    if not text:
        return view.respond(_list_facts(view), page=lambda: _page_context(view))
    limit = view.query_int("limit", default=MAX_FOUND, maximum=100)
    found = sync_search.search_memory(
        view.user_id,
        text,
        # The page shows both, as recall does.
        scope=query_choice(view, "in", SEARCH_SCOPES)
        or ("all" if view.wants_html else "facts"),
        category=query_choice(view, "category", CATEGORIES),
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

    def load_context() -> dict[str, Any]:
        recall_block = sync_search.memory_prompt(view.user_id, found)
        return {
            **_page_context(view),
            "query": text,
            "recall_block": redaction.redact_own(recall_block),
        }

    return view.respond(data, page=load_context)


def _list_facts(view: UserView) -> dict[str, Any]:
    status: Any = query_choice(view, "status", STATUSES) or "active"
    found, has_more = fact_store.page_facts(
        view.user_id,
        status=None if status == "all" else status,
        category=query_choice(view, "category", CATEGORIES),
        after=parse_cursor(view.request.query_params.get("after"), uuid.UUID),
        limit=PAGE_SIZE,
    )
    last = (found[-1].created_at, found[-1].id) if found else None
    return serialize_page(
        [redact_fact(fact) for fact in found], has_more=has_more, last=last
    )


def redact_fact(fact: StoredFact) -> dict[str, Any]:
    """Return a fact with our own secrets redacted."""
    data = fact_serializers.serialize_fact(fact)
    data["content"] = redaction.redact_own(data["content"])
    data["quote"] = data["quote"] and redaction.redact_own(data["quote"])
    return data


def _page_context(view: UserView) -> dict[str, Any]:
    """Return the additional context of the page."""
    return {
        **view.user_context(),
        "tab": "memory",
        "categories": CATEGORIES,
        "statuses": STATUSES,
        "by_category": user_queries.count_facts_by_category(view.user_id),
        "is_on": memory_settings.resolve_for_users(live.current()) is not None,
    }
