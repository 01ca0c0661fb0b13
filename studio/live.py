"""Live: what happens now, as a page, and for scripts as it stands."""

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from studio import live_rows, watchers
from studio.faces import Face


class Live(Face):
    """Turns that run, what ended lately, and the queue."""

    title = "Live"
    template = "studio/live.html"

    @extend_schema(
        summary="Show what happens now",
        description="Turns that run, what ended lately, and the queue; the websocket "
        "at `/admin/live/events` tells of each change.",
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request) -> Response:
        return self.answer({"object": "live", **watchers.poll(), **live_rows.latest()})


class Events(Face):
    """Where the websocket is; `live_socket` answers those that ask for one."""

    schema = None

    def get(self, request: Request) -> HttpResponse:
        said = "This address is a websocket: GET /admin/live is the same for once.\n"
        headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
        return HttpResponse(
            said, status=426, content_type="text/plain", headers=headers
        )
