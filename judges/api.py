"""`/v1/feedback`: users' feedback on replies."""

from django.http import HttpRequest, HttpResponse
from ninja import Body, Query, Router

from access.users.request_user import CallerQuery, identify_user
from api_base.json_responses import json_response
from core import ids
from core.ids import TurnId
from database import database_executor
from judges.errors import FeedbackUnknown, MessageUnknown
from judges.ratings import feedback
from judges.schemas import DeletedFeedback, FeedbackObject, NewFeedback

router = Router(tags=["Feedback"])


@router.post(
    "",
    summary="Create or replace feedback on a reply",
    description="Feedback on the same reply replaces the earlier feedback.",
    response=FeedbackObject,
)
async def give_feedback(
    request: HttpRequest, query: Query[CallerQuery], body: Body[NewFeedback]
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    turn_id = ids.parse_turn_id(body.message_id)
    if turn_id is None:
        raise MessageUnknown(param="message_id")
    saved = await database_executor.run_to_end(
        feedback.save_feedback,
        user_id,
        turn_id,
        score=body.score,
        thumb=body.thumb,
        text=body.comment or "",
    )
    return json_response(FeedbackObject.model_validate(saved))


@router.get(
    "/{message_id}", summary="Show your feedback on a reply", response=FeedbackObject
)
async def show_feedback(
    request: HttpRequest, message_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    found = await database_executor.run(
        feedback.get_feedback, user_id, _parse_id(message_id)
    )
    return json_response(FeedbackObject.model_validate(found))


@router.delete(
    "/{message_id}", summary="Delete your feedback on a reply", response=DeletedFeedback
)
async def delete_feedback(
    request: HttpRequest, message_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    turn_id = _parse_id(message_id)
    await database_executor.run_to_end(feedback.delete_feedback, user_id, turn_id)
    return json_response(DeletedFeedback(message_id=ids.format_completion_id(turn_id)))


def _parse_id(text: str) -> TurnId:
    """Return the id; raises `FeedbackUnknown` for a malformed one."""
    turn_id = ids.parse_turn_id(text)
    if turn_id is None:
        raise FeedbackUnknown
    return turn_id
