"""The base of lists whose rows belong to users: shows and finds their names."""

from typing import Any, ClassVar

from django.http import HttpRequest

from access import user_lookup
from access.users import identity
from admin_base.columns import column, link
from admin_base.model_admin import StudioModelAdmin
from config import live
from core.ids import UserId

MAX_FOUND = 500
"""Maximum rows whose id begins with the searched text."""


class UserRowsAdmin(StudioModelAdmin):
    """Rows of users; the list of one user has the tabs of the user's pages."""

    tab: ClassVar[str] = ""
    """The tab that the list is, in `studio/users/_tabs.html`."""

    def user_id_of(self, row: Any) -> UserId:
        return UserId(row.user_id)

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        names = user_lookup.load_names(live.current())
        for row in super().prepare_rows(request, rows):
            user_id = self.user_id_of(row)
            row.user_name = names.get(user_id) or str(user_id)[:8]
        return rows

    def list_context(self, request: HttpRequest, page: Any) -> dict[str, Any]:
        user = self.filter_value(request, "user")
        user_url = f"/admin/users/{identity.derive_user_id(user)}" if user else ""
        return {"user_url": user_url, "tab": self.tab}

    @column("User", css="is-wide")
    def user(self, row: Any) -> Any:
        return link(f"/admin/users/{self.user_id_of(row)}", row.user_name)


class UserModelAdmin(UserRowsAdmin):
    """Rows with a `user_id`, found by it and by their own id."""

    search_fields = ["id"]
    search_help_text = "The start of an id, or the name or id of a user"

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Return the rows whose id begins with a text, or else those of a user."""
        text = self.clean_search(search_term.strip())
        if not text:
            return queryset, False
        if (id_range := user_lookup.id_range(text)) is not None:
            # As a condition of a list, databases would rather read all rows in order.
            rows = self.get_queryset(request).filter(pk__range=id_range)
            keys = list(rows.order_by("-pk").values_list("pk", flat=True)[:MAX_FOUND])
            if keys:
                return queryset.filter(pk__in=keys), False
        users = user_lookup.match_users(text, user_lookup.load_names(live.current()))
        return queryset.filter(user_id__in=users), False

    def clean_search(self, text: str) -> str:
        """Return a searched text without what may precede an id."""
        return text
