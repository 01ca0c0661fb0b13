"""`/v1/messages`."""

from collections.abc import Mapping
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Body, Router

from access.users.caller import caller_of
from api_base.json_responses import json_response
from config import live
from gateway.anthropic import (
    client_identity,
    input_messages,
    message_object,
    request_conversion,
)
from gateway.anthropic.event_encoder import MessageStreamEncoder
from gateway.anthropic.schemas import CountRequest, MessageRequest
from gateway.openai import turn_response
from turns.budget import request_limits
from turns.budget.request_usage import UsageRequest
from turns.preparation import options, request_tokens, routing

router = Router(tags=["Messages"])


@router.post("", summary="Create a message", openapi_extra=options.TURN_OPENAPI)
async def create_message(
    request: HttpRequest, body: Body[MessageRequest]
) -> HttpResponseBase:
    user_id = client_identity.identify_user(request, body)
    turn = request_conversion.to_turn_request(
        body, caller_of(request), user_id, _read_metadata(request, body)
    )
    if turn.stream:
        encoder = MessageStreamEncoder(
            turn.turn_id, turn.agent, request_tokens.estimate_turn(turn)
        )
        return await turn_response.stream(turn, encoder)
    serialize = partial(message_object.serialize_message, turn.turn_id, turn.agent)
    return await turn_response.complete(turn, serialize)


def _read_metadata(request: HttpRequest, body: MessageRequest) -> Mapping[str, str]:
    """Return the options of a turn; the session of a coding agent is its thread."""
    given = client_identity.option_metadata(body)
    metadata = options.request_metadata(request, given)
    session = client_identity.read_user(body).session
    if session and "thread_id" not in metadata:
        return {**metadata, "thread_id": session}
    return metadata


@router.post("/count_tokens", summary="Estimate the tokens of a message")
async def count_tokens(request: HttpRequest, body: Body[CountRequest]) -> HttpResponse:
    config, caller = live.current(), caller_of(request)
    user_id = client_identity.identify_user(request, body)
    routing.check_name(config, body.model, allowed=caller.agents)
    usage = UsageRequest(config, caller, user_id, needs_budget=False)
    async with request_limits.admit(usage) as admitted:
        count = request_tokens.estimate_input(
            body.model,
            input_messages.to_messages(body.system, body.messages),
            request_conversion.read_tools(body),
            request_conversion.native_format(body),
        )
        return json_response({"input_tokens": count}, headers=admitted.headers)
