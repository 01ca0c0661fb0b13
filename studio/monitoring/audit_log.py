"""The page of the audit log."""

from datetime import UTC, datetime
from typing import Any, Literal

from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log, formatting
from core.text import time_parsing
from studio.base.pagination import parse_cursor, serialize_page
from studio.base.views import StudioView


class AuditLogEntry(BaseModel):
    """A change that an operator or user made."""

    id: int
    at: datetime
    action: str
    actor: str
    target: str
    origin: str
    details: dict[str, Any]
    request_id: str | None


class AuditLogEntryList(BaseModel):
    """A page of the audit, newest first."""

    object: Literal["list"] = "list"
    data: list[AuditLogEntry]
    has_more: bool
    last_id: str | None


class AuditLogView(StudioView):
    """`/admin/audit`."""

    title = "Audit"
    template = "studio/monitoring/audit.html"

    @extend_schema(
        summary="List audit entries",
        parameters=[
            OpenApiParameter(
                "action",
                str,
                description="An action or a prefix: `token` matches all token actions.",
            ),
            OpenApiParameter(
                "actor", str, description="Only changes whose actor contains this text."
            ),
            OpenApiParameter(
                "target",
                str,
                description="Only changes whose target contains this text.",
            ),
            OpenApiParameter("since", str, description="`2026-12-31`, `90d`, `12h`."),
            OpenApiParameter(
                "after", str, description="The `last_id` of the previous page."
            ),
            OpenApiParameter("limit", int, description="50 by default, at most 500."),
        ],
        responses=AuditLogEntryList,
    )
    def get(self, request: Request) -> Response:
        """List the changes of operators and users, newest first."""
        query = request.query_params
        since = query.get("since")
        entries, has_more = audit_log.page_entries(
            action=query.get("action") or None,
            actor=query.get("actor") or None,
            target=query.get("target") or None,
            since=time_parsing.parse_past(since, datetime.now(UTC)) if since else None,
            after=parse_cursor(query.get("after"), int),
            limit=self.query_int("limit", default=50, maximum=500),
        )
        last = (entries[-1].at, entries[-1].pk) if entries else None
        data = [formatting.as_json(entry) for entry in entries]
        return self.respond(serialize_page(data, has_more=has_more, last=last))
