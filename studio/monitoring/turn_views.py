"""Turns: the list, and the complete tree of one turn."""

from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from access import user_lookup
from config import live
from core.errors import NotFound
from core.ids import UserId
from judges.ratings import feedback, scores
from studio.base.pagination import parse_cursor, serialize_page
from studio.base.query_parameters import query_choice
from studio.base.views import StudioView
from studio.user_pages import conversation_serializers
from studio.user_pages.base_view import AFTER_PARAMETER, UserView
from studio.user_pages.schemas import FactSummary, TurnFeedback, TurnScore
from telemetry.config import TELEMETRY
from telemetry.presentation import turn_ids, turn_serializers
from telemetry.schemas import ListedTurn, TurnObject
from telemetry.storage import turn_store
from telemetry.types import Origin, TurnRecord

TURNS_URL = "/admin/turns"
PAGE_SIZE = 50
OUTCOMES = ("ok", "cancelled", "error")


class TurnNotRecorded(NotFound):
    """No such turn is recorded. Running and incognito turns have no record. Records \
are deleted after telemetry.sqlite.keep_days."""

    code = "turn_not_found"


class StudioListedTurn(ListedTurn):
    """A turn of any origin."""

    origin: Origin  # type: ignore[assignment]


class StudioTurnList(BaseModel):
    """A page of turns, newest first."""

    object: Literal["list"] = "list"
    data: list[StudioListedTurn]
    has_more: bool
    last_id: str | None


class JudgedTurn(TurnObject):
    """A turn with its recalled facts, and the feedback of judges and its user."""

    origin: Origin  # type: ignore[assignment]
    recalled_facts: list[FactSummary] = Field(
        description="The recalled facts in their current state, without deleted ones."
    )
    scores: list[TurnScore]
    feedback: TurnFeedback | None


OUTCOME_PARAMETER = OpenApiParameter(
    "outcome", str, enum=OUTCOMES, description="Only turns with this outcome."
)


class TurnListView(StudioView):
    """`/admin/turns`."""

    title = "Turns"
    template = "studio/turns/list.html"

    @extend_schema(
        operation_id="turns_list",
        summary="List turns, newest first",
        parameters=[OUTCOME_PARAMETER, AFTER_PARAMETER],
        responses=StudioTurnList,
    )
    def get(self, request: Request) -> Response:
        """List the recorded turns of all users."""
        return self.respond(page_turns(self), page=_filter_context)


class UserTurnListView(UserView):
    """`/admin/users/{user}/turns`."""

    title = "Turns"
    template = "studio/users/turns.html"

    @extend_schema(
        summary="List the turns of a user, newest first",
        parameters=[OUTCOME_PARAMETER, AFTER_PARAMETER],
        responses=StudioTurnList,
    )
    def get(self, request: Request, user: str) -> Response:
        """List the recorded turns of a user, including shadow runs."""
        data = page_turns(self, self.user_id)
        return self.respond(
            data,
            page=lambda: {**_filter_context(), **self.user_context(), "tab": "turns"},
        )


def _filter_context() -> Mapping[str, Any]:
    return {"is_recorded": live.current().get(TELEMETRY).sqlite.enabled}


def page_turns(view: StudioView, user_id: UserId | None = None) -> dict[str, Any]:
    """Return the turns of a query."""
    found, has_more = turn_store.page_turns(
        user_id=user_id,
        outcome=query_choice(view, "outcome", OUTCOMES),
        after=parse_cursor(view.request.query_params.get("after"), UUID),
        limit=PAGE_SIZE,
    )
    last = (found[-1].started_at, found[-1].turn_id) if found else None
    data = [turn_serializers.serialize_list_item(turn) for turn in found]
    return serialize_page(data, has_more=has_more, last=last)


class TurnView(StudioView):
    """`/admin/turns/{id}`."""

    title = "Turn"
    template = "studio/turns/detail.html"

    @extend_schema(
        summary="Show a turn with its calls",
        parameters=[
            OpenApiParameter(
                "fragment", bool, description="Return only the trace of the page."
            )
        ],
        responses=JudgedTurn,
    )
    def get(self, request: Request, id: str) -> Response:
        """Return a turn's tree: model and tool calls at every depth, and its scores."""
        record = _find_record(id)
        self.title = f"Turn {str(record.turn_id)[:8]}"
        data = {
            **turn_serializers.serialize_turn(record),
            "recalled_facts": conversation_serializers.recalled_facts(record),
            "scores": [
                conversation_serializers.serialize_score(row)
                for row in scores.scores_of_turns([record.turn_id])
            ],
            "feedback": conversation_serializers.serialize_feedback(
                feedback.find(record.user_id, record.turn_id)
            ),
        }
        return self.respond(
            data,
            template="studio/turns/_tree.html" if request.GET.get("fragment") else None,
            page=lambda: self._page_context(record),
        )

    def _page_context(self, record: TurnRecord) -> Mapping[str, Any]:
        if self.request.GET.get("fragment"):
            return {"record": record, "is_fragment": True}
        name = user_lookup.load_names(live.current()).get(record.user_id)
        address = f"/admin/users/{record.user_id}"
        self.breadcrumbs = [
            ("Users", "/admin/users"),
            (name or address[13:21], address),
        ]
        return {"record": record, "name": name, "breadcrumbs": self.breadcrumbs}


def _find_record(id: str) -> TurnRecord:
    turn_id = turn_ids.parse_turn_id(id)
    record = None if turn_id is None else turn_store.load_record(turn_id)
    if record is None:
        raise TurnNotRecorded
    return record
