"""The base of the studio's pages; `admin_base.views` describes its use."""

from typing import Any, ClassVar

from django.http import HttpResponseRedirect
from django.urls import resolve
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from access.audit.audit_events import Actor
from access.authentication import accounts
from admin_base.views import PageView
from core.errors import NotFound
from studio.base import navigation


class StudioView(PageView):
    """A page of the studio, with the permissions of its menu entry."""

    change_permission: ClassVar[str | None] = None
    """The permission to change things, if it is not that of the menu entry."""

    def required_permission(self, method: str | None) -> str | None:
        own = None if method in SAFE_METHODS else self.change_permission
        return own or navigation.required_permission(self.request.path, method)

    def actor(self) -> Actor:
        return accounts.request_actor(self.request._request)


class NotFoundView(StudioView):
    """Answers 404 in the requested format; redirects `/admin/agents/` to its page."""

    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Raise the error, whatever the method."""
        super().initial(request, *args, **kwargs)
        if request.method != "GET" or not self._is_page_with_slash():
            raise NotFound("The studio has no such page. Its home page is /admin/")

    def _is_page_with_slash(self) -> bool:
        path = self.request.path
        found = resolve(path.rstrip("/")) if path.endswith("/") else None
        return found is not None and getattr(found.func, "cls", None) != NotFoundView

    def get(self, request: Request, rest: str) -> HttpResponseRedirect:
        """Redirect to the address without its final slash."""
        path, mark, query = request.get_full_path().partition("?")
        return HttpResponseRedirect(path.rstrip("/") + mark + query)
