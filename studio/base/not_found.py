"""The response for unknown addresses under `/admin/`."""

from typing import Any

from django.http import HttpResponseRedirect
from django.urls import resolve
from rest_framework.request import Request

from core.errors import NotFound
from studio.base.views import StudioView


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
