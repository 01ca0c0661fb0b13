"""The users of the server; `studio.admin` registers them, with their conversations."""

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest
from django.urls import path as url
from django.utils.html import format_html
from django.utils.module_loading import import_string

from access import user_lookup
from access.limits import user_limits
from access.users import identity
from admin_base.actions import Outcome, action
from admin_base.columns import column, link
from admin_base.filters import TimeFilter
from admin_base.model_admin import StudioModelAdmin
from admin_base.model_pages.change_list import SEARCH
from admin_base.serializers import Schema
from admin_base.templatetags.studio import count, usd
from config import live
from core.errors import NotFound
from memory.admin import user_views
from memory.admin.user_schemas import ErasedUser, ListedUser, UserSummary
from memory.models import EndUser
from memory.user_data import erasure

TOTALS_PERIOD = timedelta(days=30)


class UserUnknown(NotFound):
    """No such user. Names are not stored: use the id, or the exact name that clients \
send."""

    code = "user_not_found"


class EndUserAdmin(StudioModelAdmin):
    """Users, by the id or by the name that clients send."""

    path = "users"
    title = "Users"
    icon = "group"
    list_display = [
        "user",
        "active_at",
        "messages",
        "threads",
        "facts_shown",
        "turns_shown",
        "spent",
    ]
    column_classes = {"messages": "number is-wide", "threads": "number is-wide"}
    list_filter = [TimeFilter.of("active_at")]
    search_fields = ["id"]
    search_help_text = (
        "Names are not stored. Search by the exact name clients send, the start of an "
        "id, or part of a name used by a token."
    )
    ordering = ["-active_at"]
    actions = ["erase"]
    delete_action = "erase"
    delete_response = ErasedUser
    schema: ClassVar[Schema | None] = UserSummary
    row_schema = ListedUser
    list_template = "studio/users/list.html"
    empty_text = "Send a request, or chat with an agent in the playground."

    # The rows.

    def find_row(self, request: HttpRequest, id: str) -> EndUser:
        """Return a user for an action, even if the list does not show it."""
        return EndUser(pk=identity.derive_user_id(identity.check_identifier(id)))

    def get_row(self, request: HttpRequest, id: str) -> EndUser:
        row, config = self.find_row(request, id), live.current()
        if not row.load_summary():
            raise UserUnknown
        row.name = user_lookup.load_names(config).get(row.user_id)
        row.limits = user_limits.list_user_limits(
            config, row.user_id, datetime.now(UTC)
        )
        return row

    def row_title(self, row: EndUser) -> str:
        return row.name or str(row.pk)

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        names = dict(user_lookup.load_names(live.current()))
        if text := request.GET.get(SEARCH, "").strip():
            for user_id in identity.possible_user_ids(text):
                names.setdefault(user_id, text)
        EndUser.objects.load_figures(rows, datetime.now(UTC) - TOTALS_PERIOD)
        for row in rows:
            row.name = names.get(row.pk)
        return rows

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Return the users with a name, or whose id begins with a text."""
        text = search_term.strip()
        if not text:
            return queryset, False
        names = user_lookup.load_names(live.current())
        chosen = Q(pk__in=user_lookup.match_users(text, names))
        if id_range := user_lookup.id_range(text):
            chosen |= Q(pk__range=id_range)
        return queryset.filter(chosen), False

    # The pages.

    def extra_urls(self) -> list[Any]:
        erase = type(self).erase.row_action  # type: ignore[attr-defined]
        view = user_views.EraseView.as_view(model_admin=self, row_action=erase)
        export = user_views.ExportView.as_view(model_admin=self)
        return [
            url("/<str:id>/erase", view),
            url("/<str:id>/export", export),
        ]

    def list_context(self, request: HttpRequest, page: Any) -> dict[str, Any]:
        agents = import_string(settings.COULISSE_AGENT_NAMES)(live.current())
        return {"agent": next(iter(agents), "assistant")}

    @action(
        "Erase",
        audit="user.erase",
        confirm="This permanently deletes all conversations, facts and turns.",
        is_dangerous=True,
    )
    def erase(self, request: HttpRequest, row: EndUser) -> Outcome:
        """Delete every row of a user; the user's API tokens stay."""
        deleted = erasure.erase_user(row.user_id)
        rows = sum(deleted.values())
        text = f"User {row.pk} erased: {rows} rows" if rows else "The user has no data"
        data = ErasedUser(user_id=row.pk, deleted=deleted).model_dump(mode="json")
        return Outcome(bool(rows), {"rows": rows}, text, data=data)

    # Columns.

    @column("User", css="identity")
    def user(self, row: EndUser) -> Any:
        if row.name is None:
            return row.pk
        rest = '{}<br><small class="muted is-wide"><code>{}</code></small>'
        return format_html(rest, row.name, row.pk)

    @column("Facts", css="number is-wide")
    def facts_shown(self, row: EndUser) -> Any:
        return link(f"{self.row_address(row)}/facts", row.facts) if row.facts else "0"

    @column("Turns, 30 d", css="number is-wide")
    def turns_shown(self, row: EndUser) -> str:
        return count(row.turns)

    @column("Spent, 30 d", css="number")
    def spent(self, row: EndUser) -> Any:
        spent, unpriced = usd(row.spent_micro_usd), row.unpriced_turns
        rest = '{}<br><small class="muted">+ {} unpriced</small>'
        return format_html(rest, spent, count(unpriced)) if unpriced else spent
