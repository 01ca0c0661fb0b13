"""The Django admin site of the studio: page shell, menu and read-only tables."""

from typing import Any

from django.http import HttpRequest, HttpResponseRedirect
from unfold.sites import UnfoldAdminSite

from studio.security import accounts, roles
from studio.security.roles import Role


class StudioSite(UnfoldAdminSite):  # type: ignore[misc]  # it has no types
    """Admits every user with a role; the middleware has authenticated them."""

    site_title = site_header = "Coulisse"
    index_title = "Tables"
    index_template = "studio/operations/tables.html"

    def has_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may view the studio."""
        return roles.role_of(request.user) is not None

    def is_operator(self, request: HttpRequest) -> bool:
        """Return whether the user may change things."""
        return roles.role_of(request.user) is Role.OPERATOR

    def login(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Redirect to the home page, where the middleware asks for the login."""
        return HttpResponseRedirect("/admin/")

    def app_index(
        self, request: HttpRequest, app_label: str, extra_context: Any = None
    ) -> Any:
        """Redirect to the list of all tables, which includes those of an app."""
        return HttpResponseRedirect("/admin/tables/")

    def get_urls(self) -> list[Any]:
        """Return the URLs of the tables, without those about passwords."""
        return [
            url
            for url in super().get_urls()
            if not (getattr(url, "name", None) or "").startswith("password_")
        ]

    def logout(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """End all sessions of the user, if a form of the studio requests it."""
        if request.method == "POST":
            accounts.end_sessions(request.user)
            request.session.flush()
        return HttpResponseRedirect("/admin/")

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Return the context of every page of the shell."""
        return {**super().each_context(request), "available_apps": []}


site = StudioSite()
