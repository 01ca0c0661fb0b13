"""The users the server has seen, and one of them at a glance."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from access import user_lookup
from access.audit import audit_log
from access.users import identity
from config import live
from memory.api import user_data
from memory.transcript import conversation_queries
from memory.user_data import erasure, export, user_queries
from memory.user_data.user_queries import Person, Sought
from studio.base import formats
from studio.base.html_renderer import PageRenderer
from studio.base.pagination import listed, place
from studio.base.views import Face
from studio.user_pages import schemas as shapes
from studio.user_pages.base_view import AFTER, PLACE, OfUser
from studio.user_pages.conversations import listed_thread, spoken
from studio.user_pages.export_schemas import ExportedUser
from telemetry.presentation import turn_serializers
from telemetry.statistics import user_totals
from telemetry.statistics.user_totals import NOTHING
from turns.preparation import routing

PAGE = 50
LATELY = timedelta(days=30)
SHOWN_THREADS = 12


class Users(Face):
    """`/admin/users`."""

    title = "Users"
    template = "studio/users/list.html"

    @extend_schema(
        operation_id="users_list",
        summary="List users, those active last first",
        parameters=[
            OpenApiParameter(
                "q",
                str,
                description="A name as clients send it, a part of a name that a token "
                "or the configuration has, or the beginning of an id.",
            ),
            AFTER,
        ],
        responses=shapes.UserList,
    )
    def get(self, request: Request) -> Response:
        """List every user the server has seen."""
        query = request.query_params
        wanted = query.get("q", "").strip()
        known = user_lookup.known(live.current())
        sought = Sought(user_lookup.alike(wanted, known), user_lookup.ids_from(wanted))
        found, has_more = user_queries.page(
            sought=sought if wanted else None,
            after=place(query.get("after"), UUID),
            limit=PAGE,
        )
        if wanted:
            known = {**dict.fromkeys(identity.meanings(wanted), wanted), **known}
        last = found[-1].cursor if found else None
        data = listed(_with_figures(found, known), has_more=has_more, last=last)
        return self.respond(data, page=lambda: {"sought": wanted, **_first_steps()})


def _first_steps() -> dict[str, Any]:
    """Return what the page needs to say how a first request is sent."""
    return {"agent": next(iter(routing.names(live.current())), "assistant")}


def _with_figures(
    found: list[Person], known: user_lookup.Names
) -> list[dict[str, Any]]:
    ids = [person.user_id for person in found]
    facts = user_queries.counts_of_facts(ids)
    used = user_totals.since(ids, datetime.now(UTC) - LATELY)
    told = []
    for person in found:
        lately = used.get(person.user_id, NOTHING)
        told.append(
            {
                "object": "user",
                "id": str(person.user_id),
                "name": known.get(person.user_id),
                "active_at": turn_serializers.instant(person.active_at),
                "threads": person.threads,
                "messages": person.messages,
                "facts": facts[person.user_id].get("active", 0),
                "turns": lately.turns,
                "spent_micro_usd": lately.micro_usd,
                "turns_of_unknown_price": lately.unpriced_turns,
            }
        )
    return told


class OneUser(OfUser):
    """`/admin/users/{user}`."""

    template = "studio/users/conversation.html"

    @extend_schema(summary="Show a user at a glance", responses=shapes.User)
    def get(self, request: Request, user: str) -> Response:
        """Return what there is of a user, counted; pages show their conversation."""
        whose = self.user_context()
        self.title = whose["whose"]["name"] or str(self.user_id)
        return self.respond(whose["whose"], page=lambda: {**whose, **self._page_context()})

    def _page_context(self) -> dict[str, Any]:
        threads, has_more = conversation_queries.threads(
            self.user_id, limit=SHOWN_THREADS
        )
        shown = spoken(self, newest=threads[0] if threads else None)
        return {
            "trail": [("Users", PLACE)],
            "lead": str(self.user_id) if self.title != str(self.user_id) else "",
            "tab": "conversation",
            "conversation": shown,
            "thread": shown["thread"],
            "threads": [listed_thread(thread) for thread in threads],
            "has_more_threads": has_more,
        }

    @extend_schema(
        summary="Erase everything there is of a user", responses={200: shapes.Erased}
    )
    def delete(self, request: Request, user: str) -> HttpResponseBase:
        """Delete every row of a user; the API tokens that act for them stay."""
        deleted = erasure.erase(self.user_id, deed=self.audit_event("user.erase"))
        told = {
            "object": "user.erased",
            "user_id": str(self.user_id),
            "deleted": deleted,
        }
        rows = sum(deleted.values())
        said = (
            f"Erased user {self.user_id}: {rows} rows" if rows else "Nothing was there"
        )
        return self.confirm_change(told, said=said, to=PLACE)


class Erasing(OfUser):
    """`/admin/users/{user}/erase`."""

    template = "studio/users/erase.html"
    title = "Erase"

    @extend_schema(
        summary="Count what erasing a user would delete", responses=shapes.Erasable
    )
    def get(self, request: Request, user: str) -> Response:
        """Return the rows that would go, by table; nothing is deleted."""
        told = {
            "object": "user.erasure",
            "user_id": str(self.user_id),
            "would_delete": erasure.count(self.user_id),
        }
        return self.respond(told, page=self._page_context)

    def _page_context(self) -> Mapping[str, Any]:
        shown = self.user_context()
        self.title = f"Erase {shown['whose']['name'] or self.user_id}?"
        return {**shown, "title": self.title, "lead": ""}


class Export(OfUser):
    """`/admin/users/{user}/export`."""

    operator_only = True
    # The document is JSON, which browsers save.
    renderer_classes = [formats.Json, PageRenderer]

    @extend_schema(
        summary="Download everything there is of a user",
        responses={(200, "application/json"): ExportedUser},
    )
    def get(self, request: Request, user: str) -> HttpResponseBase:
        """Return the document of `GET /v1/users/me/export`, nothing left out."""
        first, rest = audit_log.recorded(
            self.audit_event("user.export"), export.piece, self.user_id, export.START
        )
        return StreamingHttpResponse(
            user_data.pieces(self.user_id, first, rest),
            content_type="application/json",
            headers={
                "Cache-Control": "no-store",
                "Content-Disposition": f'attachment; filename="{self.user_id}.json"',
            },
        )
