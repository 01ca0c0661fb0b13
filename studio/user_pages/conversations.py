"""A user's conversations, by thread."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from core.errors import NotFound
from memory.transcript import conversation_queries
from memory.transcript.conversation_queries import ThreadInfo
from studio.base.pagination import parse_cursor, serialize_page
from studio.user_pages import conversation_serializers
from studio.user_pages import schemas as shapes
from studio.user_pages.base_view import AFTER_PARAMETER, UserView
from telemetry.presentation import turn_serializers

PAGE_SIZE = 40
THREADS_PAGE_SIZE = 50
MAX_POSITION = 2**62


class ThreadUnknown(NotFound):
    """No such thread of this user."""

    code = "thread_not_found"


class MessageListView(UserView):
    """`/admin/users/{user}/messages`: the conversation of the user's page, for
    scripts."""

    title = "Messages"

    @extend_schema(
        summary="List messages of a thread",
        parameters=[
            OpenApiParameter(
                "thread",
                str,
                description="A `thread_id`, empty for the default thread. Without it, "
                "the most recently active thread.",
            ),
            OpenApiParameter(
                "before", int, description="The `first_position` of the previous page."
            ),
            OpenApiParameter("limit", int, description="40 by default, at most 200."),
        ],
        responses=shapes.ThreadMessageList,
    )
    def get(self, request: Request, user: str) -> Response:
        """Return messages of a thread, oldest first, with all their details."""
        newest, _ = conversation_queries.list_threads(self.user_id, limit=1)
        return self.respond(load_messages(self, newest=newest[0] if newest else None))


def load_messages(view: UserView, *, newest: ThreadInfo | None) -> dict[str, Any]:
    """Return the messages of a query; raises `ThreadUnknown`.

    `newest` is the default thread.
    """
    name = view.request.query_params.get("thread")
    before = view.query_int("before", default=-1, minimum=0, maximum=MAX_POSITION)
    limit = view.query_int("limit", default=PAGE_SIZE, maximum=200)
    thread = (
        newest if name is None else conversation_queries.get_thread(view.user_id, name)
    )
    if thread is None and name is not None:
        raise ThreadUnknown
    if thread is None:
        return _serialize_messages(
            None, conversation_serializers.failed_turns_page(view.user_id)
        )
    page = conversation_serializers.conversation_page(
        view.user_id, thread, before=None if before < 0 else before, limit=limit
    )
    return _serialize_messages(serialize_thread(thread), page)


def _serialize_messages(
    thread: dict[str, Any] | None, page: conversation_serializers.ConversationPage
) -> dict[str, Any]:
    return {
        "object": "list",
        "thread": thread,
        "data": page.data,
        "has_more": page.has_more,
        "first_position": page.first_position,
    }


class ThreadListView(UserView):
    """`/admin/users/{user}/threads`."""

    template = "studio/users/threads.html"
    title = "Threads"

    @extend_schema(
        summary="List the threads of a user, most recently active first",
        parameters=[AFTER_PARAMETER],
        responses=shapes.UserThreadList,
    )
    def get(self, request: Request, user: str) -> Response:
        """List the conversations of a user."""
        after = parse_cursor(request.query_params.get("after"), int)
        found, has_more = conversation_queries.list_threads(
            self.user_id, after=after, limit=THREADS_PAGE_SIZE
        )
        data = serialize_page(
            [serialize_thread(thread) for thread in found],
            has_more=has_more,
            last=found[-1].cursor if found else None,
        )
        return self.respond(
            data, page=lambda: {**self.user_context(), "tab": "conversation"}
        )


def serialize_thread(thread: ThreadInfo) -> dict[str, Any]:
    """Return a thread for lists."""
    return {
        "object": "thread",
        "thread_id": thread.name or None,
        "messages": thread.messages,
        "created_at": turn_serializers.format_time(thread.created_at),
        "updated_at": turn_serializers.format_time(thread.updated_at),
    }
