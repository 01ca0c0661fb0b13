"""In place of a page there is not."""

from typing import Any

from rest_framework.request import Request

from core.errors import NotFound
from studio.base.views import StudioView


class NotFoundView(StudioView):
    """Says so, in the face that was asked for."""

    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse, whatever the method."""
        super().initial(request, *args, **kwargs)
        raise NotFound("There is no such page in the studio; begin at /admin/")
