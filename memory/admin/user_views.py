"""Addresses below a user's: its erasure and its export."""

from typing import Any, ClassVar

from django.db import transaction
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from admin_base import audit
from admin_base.formats import data_formats
from admin_base.formats.html_renderer import HtmlRenderer
from admin_base.model_pages.model_views import ActionView, ModelView
from memory.admin.user_schemas import ErasedUser, ErasurePreview
from memory.api import user_data
from memory.user_data import erasure, export


class EraseView(ActionView):
    """`/admin/users/{user}/erase`: what an erasure would delete, and the erasure."""

    permissions: ClassVar[dict[str, str]] = {"GET": "view", "POST": "view"}
    template = "studio/users/erase.html"
    title = "Erase"

    @extend_schema(
        summary="Count the rows that an erasure would delete", responses=ErasurePreview
    )
    def get(self, request: Request, id: str) -> Response:
        """Return the number of rows to delete, by table; nothing is deleted."""
        row, users = self.find_row(id), self.model_admin
        self.title = f"Erase {row.pk}?"
        self.breadcrumbs = [
            (users.title, users.address),
            (str(row.pk)[:8], users.row_address(row)),
        ]
        counts = erasure.count_rows(row.pk)
        data = ErasurePreview(user_id=row.pk, would_delete=counts)
        return self.respond(data.model_dump(mode="json"))

    @extend_schema(summary="Erase one user", request=None, responses=ErasedUser)
    def post(self, request: Request, id: str) -> Any:
        """Run the action."""
        return super().post(request, id)


class ExportView(ModelView):
    """`/admin/users/{user}/export`."""

    permissions: ClassVar[dict[str, str]] = {"GET": "change"}
    # The document is JSON, which browsers download.
    renderer_classes = [data_formats.JsonRenderer, HtmlRenderer]

    @extend_schema(
        summary="Export all data of a user",
        responses={(200, "application/json"): export.document_schema()},
    )
    def get(self, request: Request, id: str) -> HttpResponseBase:
        """Return the complete document of `GET /v1/users/me/export`."""
        row = self.find_row(id)
        with transaction.atomic():
            first, rest = export.next_chunk(row.pk, export.START)
            audit.record(request._request, "user.export", row)
        return StreamingHttpResponse(
            user_data.stream_export(row.pk, first, rest),
            content_type="application/json",
            headers={
                "Cache-Control": "no-store",
                "Content-Disposition": f'attachment; filename="{row.pk}.json"',
            },
        )
