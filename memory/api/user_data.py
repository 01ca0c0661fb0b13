"""`/v1/users/me`: settings of a user, export and erasure of their data."""

from collections.abc import AsyncGenerator
from dataclasses import asdict
from datetime import datetime
from typing import Literal

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import Body, Query, Router
from pydantic import BaseModel, ConfigDict, Field

from access.audit import audit_log
from access.audit.request_audit import build_event
from access.users.request_user import CallerBody, CallerQuery, identify_user
from api_base.json_responses import json_response
from config import live
from core.ids import UserId
from database import database_executor
from memory.api.schemas import remove_schema_defaults
from memory.user_data import erasure, export, user_settings
from memory.user_data.export import ExportPosition
from telemetry.config import TELEMETRY

router = Router(tags=["Users"])

EXPORT_OPENAPI = {
    "responses": {
        200: {
            "description": "OK",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    },
}


class SettingsBody(CallerBody):
    """Body of `PATCH /v1/users/me/settings`."""

    model_config = ConfigDict(json_schema_extra=remove_schema_defaults)

    recall: bool = Field(
        default=True, description="Whether agents use what is stored about the user."
    )
    learning: bool = Field(
        default=True, description="Whether agents may learn something about the user."
    )


class UserSettingsObject(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    object: Literal["user.settings"] = "user.settings"
    recall: bool
    learning: bool


class EraseQuery(CallerQuery):
    """Query of `DELETE /v1/users/me`."""

    confirmation: str | None = Field(
        default=None, description="From the response to the first request."
    )


class ErasureRequested(BaseModel):
    object: Literal["user.erasure"] = "user.erasure"
    user_id: str
    confirmation: str
    expires_at: datetime
    would_delete: dict[str, int]


class UserErased(BaseModel):
    object: Literal["user.erased"] = "user.erased"
    user_id: str
    deleted: dict[str, int]


@router.get("/settings", summary="Show the settings", response=UserSettingsObject)
async def show_settings(
    request: HttpRequest, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    settings = await database_executor.run(user_settings.get_settings, user_id)
    return json_response(UserSettingsObject.model_validate(settings))


@router.patch("/settings", summary="Change settings", response=UserSettingsObject)
async def change_settings(
    request: HttpRequest, query: Query[CallerQuery], body: Body[SettingsBody]
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    names = sorted(body.model_fields_set & {*user_settings.COLUMNS})
    changes = {name: getattr(body, name) for name in names}
    event = build_event(request, "user.settings", user_id, **changes)
    settings, _ = await database_executor.run_to_end(
        audit_log.run_recorded,
        lambda changed: event if changed[1] else None,
        user_settings.change_settings,
        user_id,
        changes,
    )
    return json_response(UserSettingsObject.model_validate(settings))


@router.get(
    "/export",
    summary="Export all data of the user",
    openapi_extra=EXPORT_OPENAPI,
)
async def export_user(
    request: HttpRequest, query: Query[CallerQuery]
) -> HttpResponseBase:
    user_id = identify_user(request, query)
    start = ExportPosition(
        shows_calls=live.current().get(TELEMETRY).sqlite.show_to_users
    )
    # Read before the response starts, so that errors get their own status.
    first, rest = await database_executor.run_to_end(
        audit_log.run_recorded,
        build_event(request, "user.export", user_id),
        export.next_chunk,
        user_id,
        start,
    )
    return StreamingHttpResponse(
        stream_export(user_id, first, rest),
        content_type="application/json",
        headers={
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="{user_id}.json"',
        },
    )


async def stream_export(
    user_id: UserId, chunk: bytes, position: ExportPosition | None
) -> AsyncGenerator[bytes]:
    """Yield an export that continues after `written`.

    Uses no database connection while the client reads.
    """
    yield chunk
    while position is not None:
        chunk, position = await database_executor.run(
            export.next_chunk, user_id, position
        )
        yield chunk


@router.delete(
    "",
    summary="Erase all data of the user, after confirmation",
    response={200: UserErased, 202: ErasureRequested},
)
async def erase_user(request: HttpRequest, query: Query[EraseQuery]) -> HttpResponse:
    user_id = identify_user(request, query)
    if query.confirmation is None:
        pending = await database_executor.run_to_end(erasure.request_erasure, user_id)
        content = ErasureRequested(user_id=str(user_id), **asdict(pending))
        return json_response(content, status=202)
    deleted = await database_executor.run_to_end(
        erasure.confirm_erasure,
        user_id,
        query.confirmation,
        event=build_event(request, "user.erase", user_id),
    )
    return json_response(UserErased(user_id=str(user_id), deleted=deleted))
