"""What is known of a user: searched as a turn recalls it, corrected, forgotten."""

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
from memory.api.schemas import MAX_QUERY_LENGTH, FoundList, Memory, SavedMemory
from memory.context import sync_search
from memory.facts import fact_serializers, fact_store, public_ids
from memory.recall import query_preparation
from memory.types import Category, KnownFact, Status
from memory.user_data import user_queries
from studio.base.pagination import listed, place
from studio.base.query_parameters import choice
from studio.user_pages.base_view import AFTER, OfUser
from studio.user_pages.schemas import NewFact

BY = "operator"
PAGE = 50
FOUND = 20
AMONG = ("facts", "messages", "all")
CATEGORIES = get_args(Category)
STATUSES = (*get_args(Status), "all")


class FactList(BaseModel):
    """A page of facts, the newest first."""

    object: str = "list"
    data: list[Memory]
    has_more: bool
    last_id: str | None


class FactsOrFound(RootModel[FactList | FoundList]):
    """A page of facts; with `q` what a search found."""


class Facts(OfUser):
    """`/admin/users/{user}/facts`."""

    title = "Memory"
    template = "studio/users/facts.html"

    @extend_schema(
        operation_id="users_facts_list",
        summary="List what is known of a user, or search it as a turn recalls it",
        parameters=[
            OpenApiParameter("q", str, description="Searches, and tells by what."),
            OpenApiParameter(
                "in", str, enum=AMONG, description="What to search: facts by default."
            ),
            OpenApiParameter("category", str, enum=CATEGORIES),
            OpenApiParameter(
                "status", str, enum=STATUSES, description="Of lists: active by default."
            ),
            OpenApiParameter(
                "limit", int, description="Of searches: 20 by default, at most 100."
            ),
            AFTER,
        ],
        responses=FactsOrFound,
    )
    def get(self, request: Request, user: str) -> Response:
        """List facts, the newest first; with `q` those that fit it best, explained."""
        return answer(self)

    @extend_schema(
        operation_id="users_facts_create",
        summary="Add a fact by hand",
        request=NewFact,
        responses={201: SavedMemory},
    )
    def post(self, request: Request, user: str) -> HttpResponseBase:
        """Remember something; what says the same already is not remembered twice."""
        new = self.parse_body(NewFact)
        gone = None if new.supersedes is None else public_ids.require(new.supersedes)
        draft = new.to_fact_draft("operator", supersedes=gone)
        vector = sync_search.embed(new.content)
        (saved,) = audit_log.recorded(
            query_preparation.telling_which(self.audit_event("memory.create", "memory")),
            fact_store.save,
            self.user_id,
            [draft],
            [vector.embedded],
            by=BY,
            threshold=query_preparation.threshold(),
            errors=[vector.error],
        )
        fact = fact_store.get(self.user_id, saved.fact_id)
        return self.confirm_change(
            serializers.saved(fact, saved),
            said=SAID[saved.outcome],
            to=f"{self.user_url}/facts",
            status=201,
        )

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the list with the new fact as it was typed, if there is a list."""
        try:
            return {**_listed(self), **_shown(self), "typed": self.body_data()}
        except CoulisseError:
            return None


SAID = {
    "created": "Remembered",
    "held": "Kept, but held: no prompt has it until somebody says it may",
    "outdated": "Kept as the past: something newer is known",
    "superseded": "Remembered; what was known before is no longer so",
    "unchanged": "This was known already",
    "updated": "Updated what was known already",
}


def answer(face: OfUser) -> Response:
    """Return what a query asks of a user's facts."""
    text = face.request.query_params.get("q", "").strip()[:MAX_QUERY_LENGTH]
    if not text:
        return face.respond(_listed(face), page=lambda: _shown(face))
    limit = face.query_int("limit", default=FOUND, most=100)
    found = sync_search.search_for(
        face.user_id,
        text,
        # A page shows both, as recall looks for both.
        among=choice(face, "in", AMONG) or ("all" if face.wants_html else "facts"),
        category=choice(face, "category", CATEGORIES),
        limit=limit,
    )
    data = serializers.found(
        found.facts,
        found.messages,
        found.prepared,
        limit=len(found.facts) + len(found.messages),
        explain=True,
    )

    for each in data["data"]:
        each["content"] = redaction.own(each["content"])

    def shown() -> dict[str, Any]:
        told = sync_search.told(face.user_id, found)
        return {**_shown(face), "query": text, "told": redaction.own(told)}

    return face.respond(data, page=shown)


def _listed(face: OfUser) -> dict[str, Any]:
    status: Any = choice(face, "status", STATUSES) or "active"
    found, has_more = fact_store.page(
        face.user_id,
        status=None if status == "all" else status,
        category=choice(face, "category", CATEGORIES),
        after=place(face.request.query_params.get("after"), uuid.UUID),
        limit=PAGE,
    )
    last = (found[-1].created_at, found[-1].id) if found else None
    return listed([discreet(fact) for fact in found], has_more=has_more, last=last)


def discreet(fact: KnownFact) -> dict[str, Any]:
    """Return a fact as it is told, without our own secrets."""
    told = fact_serializers.fact(fact)
    told["content"] = redaction.own(told["content"])
    told["quote"] = told["quote"] and redaction.own(told["quote"])
    return told


def _shown(face: OfUser) -> dict[str, Any]:
    """Return what the page shows besides."""
    return {
        **face.user_context(),
        "tab": "memory",
        "categories": CATEGORIES,
        "statuses": STATUSES,
        "by_category": user_queries.counts_by_category(face.user_id),
        "is_on": memory_settings.of_users(live.current()) is not None,
    }
