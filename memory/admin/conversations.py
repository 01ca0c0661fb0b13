"""Threads and messages; the page of a user shows a thread as a conversation."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import Truncator

from access.users.filters import UserFilter
from access.users.model_admin import UserRowsAdmin
from admin_base.columns import column, link
from admin_base.filters import TimeFilter
from core.ids import UserId
from memory.admin.user_schemas import StudioMessage, StudioSession, StudioThread
from memory.models import Session, StoredMessage, Thread
from memory.transcript import conversation_queries


class ConversationAdmin(UserRowsAdmin):
    """Rows of conversations, whose pages are those of their users."""

    icon = "forum"
    tab = "conversation"
    list_template = "studio/users/rows.html"
    empty_text = "Send a request, or chat with an agent in the playground."

    def thread_of(self, row: Any) -> Thread:
        raise NotImplementedError

    def user_id_of(self, row: Any) -> UserId:
        return UserId(self.thread_of(row).user_id)

    def row_address(self, row: Any, **query: Any) -> str:
        thread = self.thread_of(row)
        query = {"thread": thread.name, **query}
        return f"/admin/users/{thread.user_id}?{urlencode(query)}"

    @column("Thread")
    def thread_name(self, row: Any) -> str:
        return self.thread_of(row).name or "Default thread"


@admin.register(Thread)
class ThreadAdmin(ConversationAdmin):
    """The conversations of users.

    A user's are sorted by their last message. All are sorted by their beginning: an
    index of their last messages would make every turn slower.
    """

    path = "threads"
    parent_paths = {"users/<str:user>/threads": None}
    title = "Threads"
    list_display = ["thread_name", "user", "length", "created_at", "updated_at"]
    column_classes = {"user": "long user", "length": "number", "created_at": "is-wide"}
    list_filter = [TimeFilter.of("updated_at"), UserFilter]
    search_fields = ["name"]
    search_help_text = "A part of a thread's name"
    links = [("Messages", "/admin/messages"), ("Sessions", "/admin/sessions")]
    schema = StudioThread

    def get_ordering(self, request: HttpRequest | None) -> list[str]:
        is_of_user = self.filter_value(request, "user")
        return ["-updated_at"] if is_of_user else ["-id"]

    def thread_of(self, row: Any) -> Thread:
        return row  # type: ignore[no-any-return]  # a thread


@admin.register(Session)
class SessionAdmin(ConversationAdmin):
    """Ended sessions of threads, with their episodes and feedback."""

    path = "sessions"
    tab = "sessions"
    parent_paths = {"users/<str:user>/sessions": None}
    title = "Sessions"
    list_display = [
        "thread_name",
        "user",
        "episode_shown",
        "reason",
        "score",
        "comment",
        "ended_at",
    ]
    column_classes = {
        "thread_name": "long",
        "user": "long is-wide",
        "reason": "is-wide",
        "score": "number is-wide",
        "comment": "long is-wide",
    }
    fieldsets = [
        (
            "Session",
            {
                "fields": [
                    "user",
                    "messages_link",
                    "started_at",
                    "ended_at",
                    "reason",
                    "state",
                    "closed_at",
                ]
            },
        ),
        ("Episode", {"fields": ["episode_shown"]}),
        ("Feedback", {"fields": ["score", "comment"]}),
    ]
    list_filter = [TimeFilter.of("ended_at"), UserFilter, "reason"]
    ordering = ["-ended_at"]
    list_select_related = ["thread", "episode"]
    links = [("Threads", "/admin/threads")]
    empty_text = "A session ends on request, or after some time without a turn."
    schema = StudioSession

    def thread_of(self, row: Any) -> Thread:
        return row.thread  # type: ignore[no-any-return]  # a thread

    def row_address(self, row: Any, **query: Any) -> str:
        address = super().row_address(row, before=row.end_position)
        return f"{address}#m{row.first_position}"

    def row_title(self, row: Session) -> str:
        return str(row).capitalize()

    @column("Episode", css="long")
    def episode_shown(self, row: Session) -> str | None:
        return f"Failed: {row.error}" if row.error else row.episode_text

    @column("Messages")
    def messages_link(self, row: Session) -> Any:
        return link(self.row_address(row), self.thread_name(row))


class MessageUserFilter(UserFilter):
    """Messages of the threads of a user."""

    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        threads = super().apply(Thread.objects.all(), value)
        # As a subquery, databases would rather read all messages in their order.
        return queryset.filter(thread_id__in=list(threads.values_list("pk", flat=True)))


@admin.register(StoredMessage)
class MessageAdmin(ConversationAdmin):
    """Messages of all users, the newest first.

    Their times have no index, which each turn would have to write; turns are filtered
    by time, and lead to their messages.
    """

    path = "messages"
    title = "Messages"
    list_display = ["text_shown", "role", "agent", "user", "thread_name", "created_at"]
    column_classes = {"role": "is-wide", "agent": "is-wide", "user": "identity"}
    list_filter = [MessageUserFilter]
    links = [("Threads", "/admin/threads")]
    schema = StudioMessage

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return StoredMessage.objects.without_files().select_related("thread")

    def thread_of(self, row: Any) -> Thread:
        return row.thread  # type: ignore[no-any-return]  # a thread

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        messages = map(conversation_queries.load_content, rows)
        return super().prepare_rows(request, list(messages))

    def row_address(self, row: Any, **query: Any) -> str:
        address = super().row_address(row, before=row.position + 1)
        return f"{address}#m{row.position}"

    @column("Message", css="long")
    def text_shown(self, row: Any) -> str:
        return Truncator(row.content).chars(90) or ", ".join(row.parts) or "(no text)"
