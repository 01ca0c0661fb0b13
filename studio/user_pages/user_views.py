"""The list of users, and the summary of one."""

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
from memory.user_data.user_queries import UserActivity, UserFilter
from studio.base import formats
from studio.base.html_renderer import HtmlRenderer
from studio.base.pagination import parse_cursor, serialize_page
from studio.base.views import StudioView
from studio.user_pages import schemas as shapes
from studio.user_pages.base_view import AFTER_PARAMETER, USERS_URL, UserView
from studio.user_pages.conversations import load_messages, serialize_thread
from studio.user_pages.export_schemas import ExportedUser
from telemetry.presentation import turn_serializers
from telemetry.statistics import user_totals
from telemetry.statistics.user_totals import NO_TURNS
from turns.preparation import routing

PAGE_SIZE = 50
TOTALS_PERIOD = timedelta(days=30)
THREADS_SHOWN = 12


class UserListView(StudioView):
    """`/admin/users`."""

    title = "Users"
    template = "studio/users/list.html"

    @extend_schema(
        operation_id="users_list",
        summary="List users, most recently active first",
        parameters=[
            OpenApiParameter(
                "q",
                str,
                description="The exact name that clients send, the start of an id, or "
                "part of a name in a token or the configuration.",
            ),
            AFTER_PARAMETER,
        ],
        responses=shapes.UserList,
    )
    def get(self, request: Request) -> Response:
        """List every user the server has seen."""
        query = request.query_params
        search_text = query.get("q", "").strip()
        names = user_lookup.load_names(live.current())
        user_filter = UserFilter(
            user_lookup.match_users(search_text, names),
            user_lookup.id_range(search_text),
        )
        found, has_more = user_queries.page_users(
            user_filter=user_filter if search_text else None,
            after=parse_cursor(query.get("after"), UUID),
            limit=PAGE_SIZE,
        )
        if search_text:
            names = {
                **dict.fromkeys(identity.possible_user_ids(search_text), search_text),
                **names,
            }
        last = found[-1].cursor if found else None
        data = serialize_page(_add_figures(found, names), has_more=has_more, last=last)
        return self.respond(
            data, page=lambda: {"search_text": search_text, **_first_steps_context()}
        )


def _first_steps_context() -> dict[str, Any]:
    """Return the context of the example request."""
    return {"agent": next(iter(routing.list_names(live.current())), "assistant")}


def _add_figures(
    found: list[UserActivity], names: user_lookup.UserNames
) -> list[dict[str, Any]]:
    ids = [user.user_id for user in found]
    facts = user_queries.count_facts_by_status(ids)
    used = user_totals.totals_since(ids, datetime.now(UTC) - TOTALS_PERIOD)
    rows = []
    for user in found:
        totals = used.get(user.user_id, NO_TURNS)
        rows.append(
            {
                "object": "user",
                "id": str(user.user_id),
                "name": names.get(user.user_id),
                "active_at": turn_serializers.format_time(user.active_at),
                "threads": user.threads,
                "messages": user.messages,
                "facts": facts[user.user_id].get("active", 0),
                "turns": totals.turns,
                "spent_micro_usd": totals.micro_usd,
                "unpriced_turns": totals.unpriced,
            }
        )
    return rows


class UserDetailView(UserView):
    """`/admin/users/{user}`."""

    template = "studio/users/conversation.html"

    @extend_schema(summary="Show the summary of a user", responses=shapes.UserSummary)
    def get(self, request: Request, user: str) -> Response:
        """Return the summary of a user; pages show the conversation."""
        context = self.user_context()
        self.title = context["profile"]["name"] or str(self.user_id)
        return self.respond(
            context["profile"], page=lambda: {**context, **self._page_context()}
        )

    def _page_context(self) -> dict[str, Any]:
        threads, has_more = conversation_queries.list_threads(
            self.user_id, limit=THREADS_SHOWN
        )
        conversation = load_messages(self, newest=threads[0] if threads else None)
        return {
            "breadcrumbs": [("Users", USERS_URL)],
            "lead": str(self.user_id) if self.title != str(self.user_id) else "",
            "tab": "conversation",
            "conversation": conversation,
            "thread": conversation["thread"],
            "threads": [serialize_thread(thread) for thread in threads],
            "has_more_threads": has_more,
        }

    @extend_schema(
        summary="Erase all data of a user",
        responses={200: shapes.ErasedUser},
    )
    def delete(self, request: Request, user: str) -> HttpResponseBase:
        """Delete every row of a user; the user's API tokens stay."""
        deleted = erasure.erase_user(self.user_id, event=self.audit_event("user.erase"))
        data = {
            "object": "user.erased",
            "user_id": str(self.user_id),
            "deleted": deleted,
        }
        rows = sum(deleted.values())
        message = (
            f"User {self.user_id} erased: {rows} rows"
            if rows
            else "The user has no data"
        )
        return self.confirm_change(data, message=message, redirect_to=USERS_URL)


class EraseUserView(UserView):
    """`/admin/users/{user}/erase`."""

    template = "studio/users/erase.html"
    title = "Erase"

    @extend_schema(
        summary="Count the rows that an erasure would delete",
        responses=shapes.ErasurePreview,
    )
    def get(self, request: Request, user: str) -> Response:
        """Return the number of rows to delete, by table; nothing is deleted."""
        data = {
            "object": "user.erasure",
            "user_id": str(self.user_id),
            "would_delete": erasure.count_rows(self.user_id),
        }
        return self.respond(data, page=self._page_context)

    def _page_context(self) -> Mapping[str, Any]:
        context = self.user_context()
        self.title = f"Erase {context['profile']['name'] or self.user_id}?"
        return {**context, "title": self.title, "lead": ""}


class ExportUserView(UserView):
    """`/admin/users/{user}/export`."""

    operator_only = True
    # The document is JSON, which browsers download.
    renderer_classes = [formats.JsonRenderer, HtmlRenderer]

    @extend_schema(
        summary="Export all data of a user",
        responses={(200, "application/json"): ExportedUser},
    )
    def get(self, request: Request, user: str) -> HttpResponseBase:
        """Return the complete document of `GET /v1/users/me/export`."""
        first, rest = audit_log.run_recorded(
            self.audit_event("user.export"),
            export.next_chunk,
            self.user_id,
            export.START,
        )
        return StreamingHttpResponse(
            user_data.stream_export(self.user_id, first, rest),
            content_type="application/json",
            headers={
                "Cache-Control": "no-store",
                "Content-Disposition": f'attachment; filename="{self.user_id}.json"',
            },
        )
