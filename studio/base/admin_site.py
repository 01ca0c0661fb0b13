"""The admin site of the studio: its tables, and its pages without a table."""

from importlib import import_module
from typing import Any

from django.contrib.auth.models import Permission
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import include, path
from unfold.sites import UnfoldAdminSite

from access.authentication import accounts
from admin_base.model_admin import StudioModelAdmin


class StudioSite(UnfoldAdminSite):  # type: ignore[misc]  # it has no types
    """Admits every user with a permission; the middleware has authenticated them."""

    site_title = site_header = "Coulisse"
    final_catch_all_view = False

    def has_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may see anything in the studio."""
        user = request.user
        is_granted = user.is_superuser or bool(user.get_all_permissions())
        return user.is_active and is_granted

    def login(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Redirect to the home page, where the middleware asks for the login."""
        return HttpResponseRedirect("/admin/")

    def logout(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """End all sessions of the user, if a form of the studio requests it."""
        if request.method == "POST":
            accounts.end_sessions(request.user)
            request.session.flush()
        return HttpResponseRedirect("/admin/")

    def get_urls(self) -> list[Any]:
        """Return the addresses of the pages and the tables."""
        # Imported late: the pages use the site.
        pages = import_module("studio.urls")
        shared = [
            path("jsi18n/", self.i18n_javascript, name="jsi18n"),
            path("logout/", self.logout, name="logout"),
            path("", include(pages)),
        ]
        tables = [
            path(address, include(table.urls_at(address)))
            for table in self._registry.values()
            for address in [table.path, *table.parent_paths]
        ]
        # The names of entries match any path, so they come last.
        return [*shared, *tables, *pages.entry_urls()]

    def register(self, model: Any, admin_class: Any = None, **options: Any) -> None:
        """Register a table; ignore those that third parties declare for themselves."""
        if admin_class is not None and issubclass(admin_class, StudioModelAdmin):
            super().register(model, admin_class, **options)

    def admin_at(self, address: str) -> StudioModelAdmin | None:
        """Return the admin of the table at an address such as `/admin/tokens`."""
        table = address.removeprefix("/admin/")
        return next((it for it in self._registry.values() if it.path == table), None)

    def used_permissions(self) -> QuerySet[Permission]:
        """Return the permissions that the pages ask for, for forms of groups."""
        chosen = Q(content_type__app_label="studio")
        for model, table in self._registry.items():
            names = [
                f"{verb}_{model._meta.model_name}" for verb in table.offered_verbs()
            ]
            kind = {"content_type__app_label": model._meta.app_label}
            chosen |= Q(codename__in=names, **kind)
        order = ("content_type__app_label", "content_type__model", "codename")
        return Permission.objects.filter(chosen).order_by(*order)

    def get_app_list(self, request: HttpRequest, app_label: Any = None) -> list[Any]:
        """Return no list of apps: the menu has the tables."""
        return []
