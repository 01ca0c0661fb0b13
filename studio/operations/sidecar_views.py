"""Sidecars: their state, their last output, and restarts."""

from datetime import datetime
from typing import Literal

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from config import live
from processes.sidecar_control import sidecar_status
from processes.supervision import state_directory
from studio.base.views import StudioView

SIDECARS_URL = "/admin/sidecars"


class SidecarLine(BaseModel):
    """A line of a sidecar's output, without secrets."""

    at: datetime
    stream: Literal["stdout", "stderr"]
    text: str


class SidecarDetail(BaseModel):
    """A process that runs beside the server."""

    name: str
    object: Literal["sidecar"] = "sidecar"
    command: str
    restart: Literal["always", "on-failure", "never"]
    has_health: bool
    state: Literal["running", "waiting", "finished", "failed", "unknown"]
    pid: int | None
    restarts: int
    reason: str | None
    started_at: datetime | None
    due_at: datetime | None
    lines: list[SidecarLine]


class SidecarList(BaseModel):
    """The sidecars, in the order of the YAML."""

    object: Literal["list"] = "list"
    data: list[SidecarDetail]


class SidecarRestarting(BaseModel):
    """A sidecar that is about to restart."""

    object: Literal["sidecar.restarting"] = "sidecar.restarting"
    name: str


class SidecarListView(StudioView):
    """`/admin/sidecars`."""

    title = "Sidecars"
    template = "studio/operations/sidecars.html"

    @extend_schema(summary="List sidecars", responses=SidecarList)
    def get(self, request: Request) -> Response:
        """List sidecars with their last output."""
        data = sidecar_status.list_sidecars(
            live.current(), state_directory.current_state()
        )
        return self.respond({"object": "list", "data": data})


class RestartSidecarView(StudioView):
    """`/admin/sidecars/{name}/restart`."""

    @extend_schema(
        summary="Restart a sidecar",
        request=None,
        responses={202: SidecarRestarting},
    )
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Restart a sidecar within a second."""
        event = AuditEvent("sidecar.restart", self.actor(), name)
        audit_log.run_recorded(
            event,
            sidecar_status.request_restart,
            live.current(),
            state_directory.current_state(),
            name,
        )
        return self.confirm_change(
            SidecarRestarting(name=name).model_dump(),
            message=f"Sidecar '{name}' is restarting",
            redirect_to=SIDECARS_URL,
            status=202,
        )
