"""Turns: what was asked, and the whole tree of what it took."""

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
from studio.base.pagination import listed, place
from studio.base.query_parameters import choice
from studio.base.views import Face
from studio.user_pages import conversation_serializers
from studio.user_pages.base_view import AFTER, OfUser
from studio.user_pages.schemas import Feedback, Score, ToldFact
from telemetry.config import TELEMETRY
from telemetry.presentation import turn_ids, turn_serializers
from telemetry.schemas import ListedTurn, Turn
from telemetry.storage import turn_store
from telemetry.types import Origin, Record

PLACE = "/admin/turns"
PAGE = 50
OUTCOMES = ("ok", "cancelled", "error")


class TurnUnknown(NotFound):
    """There is no record of such a turn. Turns are deleted after telemetry.sqlite.\
keep_days; those of incognito requests, and those that still run, have none."""

    code = "turn_not_found"


class AnyTurn(ListedTurn):
    """A turn, whatever began it."""

    origin: Origin  # type: ignore[assignment]


class TurnList(BaseModel):
    """A page of turns, the newest first."""

    object: Literal["list"] = "list"
    data: list[AnyTurn]
    has_more: bool
    last_id: str | None


class JudgedTurn(Turn):
    """A turn, what it was told, and what judges and its user say of it."""

    origin: Origin  # type: ignore[assignment]
    recalled_facts: list[ToldFact] = Field(
        description="What was recalled, as it is now, without what is forgotten since."
    )
    scores: list[Score]
    feedback: Feedback | None


OUTCOME = OpenApiParameter(
    "outcome", str, enum=OUTCOMES, description="Only those that ended so."
)


class Turns(Face):
    """`/admin/turns`."""

    title = "Turns"
    template = "studio/turns/list.html"

    @extend_schema(
        operation_id="turns_list",
        summary="List turns, the newest first",
        parameters=[OUTCOME, AFTER],
        responses=TurnList,
    )
    def get(self, request: Request) -> Response:
        """List the recorded turns of all users."""
        return self.respond(page(self), page=_shown)


class UserTurns(OfUser):
    """`/admin/users/{user}/turns`."""

    title = "Turns"
    template = "studio/users/turns.html"

    @extend_schema(
        summary="List the turns of a user, the newest first",
        parameters=[OUTCOME, AFTER],
        responses=TurnList,
    )
    def get(self, request: Request, user: str) -> Response:
        """List what is recorded of a user's turns, trials beside them included."""
        data = page(self, self.user_id)
        return self.respond(
            data, page=lambda: {**_shown(), **self.user_context(), "tab": "turns"}
        )


def _shown() -> Mapping[str, Any]:
    return {"is_recorded": live.current().get(TELEMETRY).sqlite.enabled}


def page(face: Face, user_id: UserId | None = None) -> dict[str, Any]:
    """Return the turns a query asks for."""
    found, has_more = turn_store.page(
        user_id=user_id,
        outcome=choice(face, "outcome", OUTCOMES),
        after=place(face.request.query_params.get("after"), UUID),
        limit=PAGE,
    )
    last = (found[-1].started_at, found[-1].turn_id) if found else None
    data = [turn_serializers.listed(turn) for turn in found]
    return listed(data, has_more=has_more, last=last)


class OneTurn(Face):
    """`/admin/turns/{id}`."""

    title = "Turn"
    template = "studio/turns/one.html"

    @extend_schema(
        summary="Show a turn with all it called",
        parameters=[
            OpenApiParameter(
                "fragment", bool, description="Of the page, the tree alone."
            )
        ],
        responses=JudgedTurn,
    )
    def get(self, request: Request, id: str) -> Response:
        """Return a turn's tree: model and tool calls at every depth, and its scores."""
        record = _find(id)
        self.title = f"Turn {str(record.turn_id)[:8]}"
        told = {
            **turn_serializers.turn(record),
            "recalled_facts": conversation_serializers.recalled(record),
            "scores": [
                conversation_serializers.score(row)
                for row in scores.of_turns([record.turn_id])
            ],
            "feedback": conversation_serializers.feedback(
                feedback.find(record.user_id, record.turn_id)
            ),
        }
        return self.respond(
            told,
            template="studio/turns/_tree.html" if request.GET.get("fragment") else None,
            page=lambda: self._page_context(record),
        )

    def _page_context(self, record: Record) -> Mapping[str, Any]:
        if self.request.GET.get("fragment"):
            return {"record": record, "is_fragment": True}
        name = user_lookup.known(live.current()).get(record.user_id)
        address = f"/admin/users/{record.user_id}"
        self.breadcrumbs = [("Users", "/admin/users"), (name or address[13:21], address)]
        return {"record": record, "name": name, "trail": self.breadcrumbs}


def _find(id: str) -> Record:
    turn_id = turn_ids.read(id)
    record = None if turn_id is None else turn_store.tree(turn_id)
    if record is None:
        raise TurnUnknown
    return record
