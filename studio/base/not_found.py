"""The response for unknown addresses under `/admin/`."""

from typing import Any

from rest_framework.request import Request

from core.errors import NotFound
from studio.base.views import StudioView


class NotFoundView(StudioView):
    """Answers 404 in the requested format."""

    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Raise the error, whatever the method."""
        super().initial(request, *args, **kwargs)
        raise NotFound("The studio has no such page. Its home page is /admin/")
