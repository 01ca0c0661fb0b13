"""The Django admin of this project: its shell, and the tables shown as they are."""

from typing import Any

from django.http import HttpRequest, HttpResponseRedirect
from unfold.sites import UnfoldAdminSite

from studio.security import accounts, roles
from studio.security.roles import Role


class StudioSite(UnfoldAdminSite):  # type: ignore[misc]  # it has no types
    """Lets in whoever has a role; the door has asked who they are."""

    site_title = site_header = "Coulisse"
    index_title = "Tables"
    index_template = "studio/tables.html"

    def has_permission(self, request: HttpRequest) -> bool:
        """Return whether this person may look."""
        return roles.role_of(request.user) is not None

    def is_operator(self, request: HttpRequest) -> bool:
        """Return whether this person may change things."""
        return roles.role_of(request.user) is Role.OPERATOR

    def login(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Lead to the first page: the door asks who it is."""
        return HttpResponseRedirect("/admin/")

    def app_index(
        self, request: HttpRequest, app_label: str, extra_context: Any = None
    ) -> Any:
        """Lead to the list of all tables, which has those of an app."""
        return HttpResponseRedirect("/admin/tables/")

    def get_urls(self) -> list[Any]:
        """Return the addresses of the tables, and none about passwords."""
        return [
            url
            for url in super().get_urls()
            if not (getattr(url, "name", None) or "").startswith("password_")
        ]

    def logout(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Forget who it was, here and elsewhere, when a form of ours says so."""
        if request.method == "POST":
            accounts.end_sessions(request.user)
            request.session.flush()
        return HttpResponseRedirect("/admin/")

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Return what every page of the shell shows."""
        return {**super().each_context(request), "available_apps": []}


site = StudioSite()
