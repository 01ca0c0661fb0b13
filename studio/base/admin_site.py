"""The admin site of the studio: its tables, and its pages without a table."""

from importlib import import_module
from typing import Any

from django.http import HttpRequest, HttpResponseRedirect
from django.urls import include, path

from access.authentication import accounts
from admin_base.site import BaseAdminSite


class StudioSite(BaseAdminSite):
    """The site that `coulisse_site.admin_config` makes Django's own."""

    def get_urls(self) -> list[Any]:
        """Return the addresses of the pages and the tables."""
        pages = import_module("studio.urls")
        # The names of entries match any path, so they come last.
        return [path("", include(pages)), *super().get_urls(), *pages.entry_urls()]

    def logout(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """End all sessions of the user, if a form of the studio requests it."""
        if request.method == "POST":
            accounts.end_sessions(request.user)
            request.session.flush()
        return HttpResponseRedirect("/admin/")
