"""`/admin/users/{user}/messages`: the conversation of the user's page, for scripts."""

from django.http import HttpRequest
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from admin_base.model_pages.model_views import ModelView
from admin_base.query_parameters import query_int
from core.errors import NotFound
from core.ids import UserId
from memory.models import Thread
from studio.conversations import conversation
from studio.conversations.schemas import ThreadMessageList

PAGE_SIZE = 40
MAX_POSITION = 2**62


class ThreadUnknown(NotFound):
    """No such thread of this user."""

    code = "thread_not_found"


class MessageListView(ModelView):
    """The messages of a user, thread by thread."""

    title = "Messages"

    def check_query(self, request: Request) -> None:
        """Accept the parameters below."""

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
        responses=ThreadMessageList,
    )
    def get(self, request: Request, id: str) -> Response:
        """Return messages of a thread, oldest first, with all their details."""
        user_id = self.find_row(id).pk
        threads = Thread.objects.filter(user_id=user_id).recently_active()
        shown = load(request._request, user_id, newest=threads.first())
        return self.respond(shown.model_dump(mode="json"))


def load(
    request: HttpRequest, user_id: UserId, *, newest: Thread | None
) -> ThreadMessageList:
    """Return the messages that a query selects; raises `ThreadUnknown`.

    `newest` is the default thread.
    """
    name, thread = request.GET.get("thread"), newest
    before = query_int(
        request.GET, "before", default=-1, minimum=0, maximum=MAX_POSITION
    )
    limit = query_int(request.GET, "limit", default=PAGE_SIZE, maximum=200)
    if name is not None:
        thread = Thread.objects.filter(user_id=user_id, name=name).first()
        if thread is None:
            raise ThreadUnknown
    if thread is None:
        return conversation.load_failed_turns(user_id)
    start = None if before < 0 else before
    return conversation.load_messages(user_id, thread, before=start, limit=limit)
