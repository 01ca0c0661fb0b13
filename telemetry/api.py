"""`/v1/turns`: a user's own turns, if the server shows them."""

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import AfterValidator, Field

from access.users.list_queries import ListQuery
from access.users.request_user import CallerQuery, identify_user
from api_base import pagination
from api_base.field_types import Instant, refuse_nul
from api_base.json_responses import json_response
from config import live
from core import ids
from core.errors import NotFound
from core.ids import TurnId, UserId
from database import database_executor
from telemetry.config import TELEMETRY
from telemetry.schemas import ListedTurn, TurnList, TurnObject
from telemetry.storage import turn_store
from telemetry.types import Outcome

router = Router(tags=["Turns"])


class UserTurnUnknown(NotFound):
    """This user has no such turn, or it was deleted."""

    code = "turn_not_found"


class TurnsHidden(NotFound):
    """This server does not show turns to users."""

    code = "turns_hidden"
    detail = "set telemetry.sqlite.show_to_users in coulisse.yaml to show them"


class TurnsQuery(ListQuery):
    """Query of `GET /v1/turns`."""

    agent: Annotated[str, AfterValidator(refuse_nul)] | None = Field(
        default=None, description="Only turns of this agent."
    )
    experiment: Annotated[str, AfterValidator(refuse_nul)] | None = Field(
        default=None, description="Only turns of this experiment."
    )
    outcome: Outcome | None = Field(
        default=None, description="Only turns with this outcome."
    )
    request_id: Annotated[str, AfterValidator(refuse_nul)] | None = Field(
        default=None, description="Only turns of the request with this id."
    )
    since: Instant | None = Field(
        default=None, description="Only turns that began at or after this time."
    )

    def fields(self) -> dict[str, Any]:
        """Return the conditions on turns."""
        names = {"agent", "experiment", "outcome", "request_id"}
        given = self.model_dump(include=names, exclude_none=True)
        return given if self.since is None else {**given, "started_at__gte": self.since}


@router.get("", summary="List turns, newest first", response=TurnList)
async def list_turns(request: HttpRequest, query: Query[TurnsQuery]) -> HttpResponse:
    user_id = _user_allowed_turns(request, query)
    cursor = await pagination.resolve_cursor(
        user_id,
        query.after,
        parse_id=ids.parse_turn_id,
        find=turn_store.find_cursor,
    )
    page, has_more = await database_executor.run(
        turn_store.page_turns_of_user, user_id, query.fields(), cursor, query.limit
    )
    items = [ListedTurn.serialize(turn, for_users=True) for turn in page]
    return json_response(pagination.serialize_page(items, has_more=has_more))


def _user_allowed_turns(request: HttpRequest, query: CallerQuery) -> UserId:
    """Return the user; raises `TurnsHidden` if users may not see their turns."""
    if not live.current().get(TELEMETRY).sqlite.show_to_users:
        raise TurnsHidden
    return identify_user(request, query)


@router.get("/{turn_id}", summary="Show a turn with all its calls", response=TurnObject)
async def show_turn(
    request: HttpRequest, turn_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = _user_allowed_turns(request, query)
    record = await database_executor.run(
        turn_store.load_record, _parse_id(turn_id), user_id
    )
    if record is None:
        raise UserTurnUnknown
    return json_response(TurnObject.serialize(record, for_users=True))


def _parse_id(text: str) -> TurnId:
    """Return the id; raises `UserTurnUnknown` for a malformed one."""
    turn_id = ids.parse_turn_id(text)
    if turn_id is None:
        raise UserTurnUnknown
    return turn_id
