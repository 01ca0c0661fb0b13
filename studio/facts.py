"""What is known of a user: searched as a turn recalls it, corrected, forgotten."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel, RootModel
from rest_framework.request import Request
from rest_framework.response import Response

from access import audit
from access.deeds import Deed
from config import live
from gateway import memory_wire
from gateway.memory_schemas import (
    MAX_QUERY_LENGTH,
    DeletedMemory,
    FoundList,
    Memory,
    MemoryChange,
    SavedMemory,
)
from memory import fact_ids, facts, people, plan, telling
from memory.errors import FactUnknown
from memory.known import Category, Draft, KnownFact, Saved, Status
from studio.of_user import AFTER, OfUser
from studio.paging import listed, place
from studio.queries import choice
from studio.user_shapes import FactChanges, NewFact
from turns import recalling, remembering
from turns.recollection import Vector

BY = "operator"
PAGE = 50
FOUND = 20
AMONG = ("facts", "messages", "all")
CATEGORIES = get_args(Category)
STATUSES = (*get_args(Status), "all")
CLEARABLE = ("key", "valid_from", "valid_to", "expires_at")
"""Fields that an empty field of a form makes empty."""


class FactList(BaseModel):
    """A page of facts, the newest first."""

    object: str = "list"
    data: list[Memory]
    has_more: bool
    last_id: str | None


class FactsOrFound(RootModel[FactList | FoundList]):
    """A page of facts; with `q` what a search found."""


class FactWithHistory(Memory):
    """A fact, and all that happened to it, the oldest first."""

    history: list[MemoryChange]


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
        summary="Add a fact by hand", request=NewFact, responses={201: SavedMemory}
    )
    def post(self, request: Request, user: str) -> HttpResponseBase:
        """Remember something; what says the same already is not remembered twice."""
        new = self.entry(NewFact)
        draft = Draft(
            new.content,
            category=new.category,
            importance=new.importance,
            key=new.key,
            is_pinned=new.pinned,
            source="operator",
            valid_from=new.valid_from,
            valid_to=new.valid_to,
            expires_at=new.expires_at,
            supersedes=None if new.supersedes is None else read_id(new.supersedes),
        )
        vector = recalling.embed(new.content)
        (saved,) = audit.recorded(
            _telling_which(self.deed("memory.create", "memory")),
            facts.save,
            self.user_id,
            [draft],
            [vector.embedded],
            by=BY,
            threshold=remembering.threshold(),
            errors=[vector.error],
        )
        fact = facts.get(self.user_id, saved.fact_id)
        return self.done(
            memory_wire.saved(fact, saved),
            said=SAID[saved.outcome],
            to=f"{self.place}/facts",
            status=201,
        )

    def refill(self) -> Mapping[str, Any]:
        """Return the list with the new fact as it was typed."""
        return {**_listed(self), **_shown(self), "typed": self.data()}


SAID = {
    "created": "Remembered",
    "held": "Kept, but held: no prompt has it until somebody says it may",
    "outdated": "Kept as the past: something newer is known",
    "superseded": "Remembered; what was known before is no longer so",
    "unchanged": "This was known already",
    "updated": "Updated what was known already",
}


def _telling_which(saving: Deed) -> Callable[[list[Saved]], Deed]:
    """Return what tells which fact was saved, once that is known."""

    def told(saved: list[Saved]) -> Deed:
        (one,) = saved
        details = {**saving.details, "outcome": one.outcome}
        return replace(saving, target=fact_ids.write(one.fact_id), details=details)

    return told


def answer(face: OfUser) -> Response:
    """Return what a query asks of a user's facts."""
    text = face.request.query_params.get("q", "").strip()[:MAX_QUERY_LENGTH]
    if not text:
        return face.answer(_listed(face), page=lambda: _shown(face))
    limit = face.number("limit", default=FOUND, most=100)
    found = recalling.search_for(
        face.user_id,
        text,
        # A page shows both, as recall looks for both.
        among=choice(face, "in", AMONG) or ("all" if face.is_page else "facts"),
        category=choice(face, "category", CATEGORIES),
        limit=limit,
    )
    data = memory_wire.found(
        found.facts,
        found.messages,
        found.prepared,
        limit=len(found.facts) + len(found.messages),
        explain=True,
    )

    def shown() -> dict[str, Any]:
        told = recalling.told(face.user_id, found)
        return {**_shown(face), "query": text, "told": told}

    return face.answer(data, page=shown)


def _listed(face: OfUser) -> dict[str, Any]:
    status: Any = choice(face, "status", STATUSES) or "active"
    found, has_more = facts.page(
        face.user_id,
        status=None if status == "all" else status,
        category=choice(face, "category", CATEGORIES),
        after=place(face.request.query_params.get("after"), uuid.UUID),
        limit=PAGE,
    )
    last = (found[-1].created_at, found[-1].id) if found else None
    return listed([telling.fact(fact) for fact in found], has_more=has_more, last=last)


def _shown(face: OfUser) -> dict[str, Any]:
    """Return what the page shows besides."""
    return {
        **face.whose(),
        "tab": "memory",
        "categories": CATEGORIES,
        "statuses": STATUSES,
        "by_category": people.counts_by_category(face.user_id),
        "is_on": plan.of_users(live.current()) is not None,
    }


class OneFact(OfUser):
    """`/admin/users/{user}/facts/{id}`."""

    template = "studio/users/fact.html"
    title = "Fact"

    @extend_schema(summary="Show a fact and its history", responses=FactWithHistory)
    def get(self, request: Request, user: str, id: str) -> Response:
        """Return a fact, and all that happened to it."""
        return self.answer(self._told(), page=self._shown)

    @extend_schema(summary="Change a fact", request=FactChanges, responses=Memory)
    def patch(self, request: Request, user: str, id: str) -> HttpResponseBase:
        """Correct, pin, hold or bring back a fact."""
        asked = self.entry(FactChanges)
        fact, changes = self._fact(), asked.changes()
        if changes:
            vector = _new_vector(fact, changes)
            fact = audit.recorded(
                self.deed("memory.change", fact_ids.write(fact.id), fields=[*changes]),
                facts.edit,
                self.user_id,
                fact.id,
                changes,
                by=BY,
                reason=asked.reason,
                embedded=vector.embedded,
                error=vector.error,
            )
        return self.done(
            telling.fact(fact), said=_said_of(changes), to=self._back(fact)
        )

    @extend_schema(summary="Forget a fact", responses={200: DeletedMemory})
    def delete(self, request: Request, user: str, id: str) -> HttpResponseBase:
        """Take a fact out of prompts and searches; its history is kept."""
        fact = audit.recorded(
            self.deed("memory.delete", id),
            facts.forget,
            self.user_id,
            read_id(id),
            by=BY,
        )
        name = fact_ids.write(fact.id)
        told = {"id": name, "object": "memory.deleted", "deleted": True}
        return self.done(told, said="Forgotten", to=f"{self.place}/facts")

    def data(self) -> Any:
        """Return the body; of the form for all of it, empty fields are empty."""
        data = super().data()
        if self.is_form and "content" in data:
            data = {**dict.fromkeys(CLEARABLE), "pinned": False, **data}
        if self.is_form:
            data.pop("back", None)
        return data

    def refill(self) -> Mapping[str, Any]:
        """Return the fact with what was typed over it."""
        return {**self._told(), **self._shown(), "typed": self.data()}

    def _fact(self) -> KnownFact:
        return facts.get(self.user_id, read_id(self.kwargs["id"]))

    def _told(self) -> dict[str, Any]:
        fact = self._fact()
        steps = facts.history(self.user_id, fact.id)
        return {**telling.fact(fact), "history": [telling.change(s) for s in steps]}

    def _shown(self) -> dict[str, Any]:
        shown = self.whose()
        trail = [*shown["trail"], ("Memory", f"{self.place}/facts")]
        return {**shown, "trail": trail, "tab": "memory", "categories": CATEGORIES}

    def _back(self, fact: KnownFact) -> str:
        """Return where a browser goes on: to the list, if it came from there."""
        if self.is_form and self._fields().get("back"):
            return f"{self.place}/facts"
        return f"{self.place}/facts/{fact_ids.write(fact.id)}"


def _new_vector(fact: KnownFact, changes: Mapping[str, Any]) -> Vector:
    """Embed a text that is new, or that searches have lost."""
    if "content" not in changes and "status" not in changes:
        return Vector(None)
    return recalling.embed(changes.get("content", fact.content))


def _said_of(changes: Mapping[str, Any]) -> str:
    if set(changes) == {"is_pinned"}:
        return "Pinned" if changes["is_pinned"] else "No longer pinned"
    if set(changes) == {"status"}:
        return "Brought back" if changes["status"] == "active" else "Held back"
    return "Saved the fact"


def read_id(name: str) -> uuid.UUID:
    """Return the id; what is none is answered as one nobody has."""
    found = fact_ids.read(name)
    if found is None:
        raise FactUnknown
    return found
