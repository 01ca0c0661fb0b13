"""`/v1/models`: agents and experiments, in the shape of OpenAI's or Anthropic's API."""

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import Field

from access.users import request_user
from access.users.caller import caller_of
from access.users.request_user import CallerQuery
from api_base.json_responses import json_response
from config import live
from core.errors import Invalid
from core.text.sanitization import escape_and_truncate
from gateway.anthropic.detection import is_anthropic
from turns.preparation import routing

STARTED_AT = datetime.now(UTC).replace(microsecond=0)
"""When this process started to serve its models."""
MAX_PAGE = 1000

router = Router(tags=["Models"])


class ModelsQuery(CallerQuery):
    """The query parameters of the list; those of a page are Anthropic's."""

    after_id: str | None = Field(None, description="The model before the page.")
    before_id: str | None = Field(None, description="The model after the page.")
    limit: int | None = Field(
        None, ge=1, le=MAX_PAGE, description="Models on the page; by default all."
    )


@router.get("", summary="List the agents and experiments")
async def list_models(request: HttpRequest, query: Query[ModelsQuery]) -> HttpResponse:
    request_user.find_named_user(request, query)
    caller = caller_of(request)
    names = [*filter(caller.may_call, routing.list_names(live.current()))]
    page, has_more = _page(names, query)
    data = [_serialize(request, name) for name in page]
    if not is_anthropic(request):
        return json_response({"object": "list", "data": data})
    ends = {
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }
    return json_response({"data": data, "has_more": has_more, **ends})


@router.get("/{path:name}", summary="Show one agent or experiment")
async def show_model(
    request: HttpRequest, name: str, query: Query[CallerQuery]
) -> HttpResponse:
    request_user.find_named_user(request, query)
    routing.check_name(live.current(), name, allowed=caller_of(request).agents)
    return json_response(_serialize(request, name))


def _page(names: list[str], query: ModelsQuery) -> tuple[list[str], bool]:
    """Return a page of names, and whether more follow in its direction."""
    start = 0 if query.after_id is None else _index(names, "after_id", query) + 1
    end = len(names) if query.before_id is None else _index(names, "before_id", query)
    limit = len(names) if query.limit is None else query.limit
    if query.before_id is not None:
        first = max(start, end - limit)
        return names[first:end], first > start
    return names[start : start + limit], start + limit < end


def _index(names: list[str], parameter: str, query: ModelsQuery) -> int:
    name = getattr(query, parameter)
    if name not in names:
        shown = escape_and_truncate(name)
        raise Invalid(
            f"{parameter} names no model: '{shown}'", param=f"query.{parameter}"
        )
    return names.index(name)


def _serialize(request: HttpRequest, name: str) -> dict[str, Any]:
    if not is_anthropic(request):
        created = int(STARTED_AT.timestamp())
        return {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "coulisse",
        }
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "lifecycle": "active",
        "created_at": f"{STARTED_AT:%Y-%m-%dT%H:%M:%SZ}",
    }
