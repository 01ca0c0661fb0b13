"""`/v1/responses`."""

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Body, Query, Router

from access.users import request_user
from access.users.caller import caller_of
from access.users.request_user import CallerQuery, identify_user
from api_base import pagination
from api_base.json_responses import json_response
from config import live
from gateway.openai import turn_response
from gateway.openai.errors import PreviousResponseUnknown
from gateway.openai.responses import (
    background,
    continuation,
    input_items,
    request_conversion,
    response_object,
    stored_responses,
    stored_stream,
)
from gateway.openai.responses.event_encoder import EventEncoder
from gateway.openai.responses.response_object import ResponseHead
from gateway.openai.responses.schemas import (
    ItemsQuery,
    ResponseQuery,
    ResponseRequest,
)
from memory.errors import ReplyUnknown
from turns.budget import request_limits
from turns.budget.request_usage import UsageRequest
from turns.errors import MessagesInvalid
from turns.preparation import options as turn_options
from turns.preparation import request_tokens, routing
from turns.preparation.options import TurnOptions

router = Router(tags=["Responses"])


@router.post(
    "",
    summary="Create a response",
    openapi_extra=turn_options.TURN_OPENAPI,
)
async def create_response(
    request: HttpRequest, body: Body[ResponseRequest]
) -> HttpResponseBase:
    user_id = identify_user(request, request_user.EMPTY_QUERY, body)
    request_conversion.refuse_unsupported(body)
    references = input_items.reference_ids(body.input)
    items = await stored_responses.read_items(user_id, references)
    options = await continuation.read_options(request, body, user_id)
    turn = request_conversion.to_turn_request(
        body, caller_of(request), user_id, options, items
    )
    if body.background:
        response = await background.start(body, turn)
        if turn.stream:
            stored = await stored_responses.read(user_id, response["id"])
            return stored_stream.stream(user_id, stored, after=None)
        return json_response(response)
    head = ResponseHead.of(body, turn.turn_id)
    try:
        if turn.stream:
            return await turn_response.stream(turn, EventEncoder(head))
        serialize = partial(response_object.serialize_reply, head)
        return await turn_response.complete(turn, serialize)
    except MessagesInvalid as exc:
        raise MessagesInvalid(exc.message, param="input") from exc
    except ReplyUnknown as exc:
        # It was deleted a moment ago.
        raise PreviousResponseUnknown(body.previous_response_id or "") from exc


@router.post("/input_tokens", summary="Estimate the input tokens of a response")
async def count_response_tokens(
    request: HttpRequest, body: Body[ResponseRequest]
) -> HttpResponse:
    user_id = identify_user(request, request_user.EMPTY_QUERY, body)
    config, caller = live.current(), caller_of(request)
    routing.check_name(config, body.model, allowed=caller.agents)
    usage = UsageRequest(config, caller, user_id, needs_budget=False)
    request_conversion.refuse_unsupported(body)
    async with request_limits.admit(usage) as admitted:
        references = input_items.reference_ids(body.input)
        items = await stored_responses.read_items(user_id, references)
        turn = request_conversion.to_turn_request(
            body, caller, user_id, TurnOptions(), items
        )
        count = request_tokens.estimate_turn(turn)
        counted = {"object": "response.input_tokens", "input_tokens": count}
        return json_response(counted, headers=admitted.headers)


@router.get("/{response_id}", summary="Show a response")
async def show_response(
    request: HttpRequest, response_id: str, query: Query[ResponseQuery]
) -> HttpResponseBase:
    user_id = identify_user(request, query)
    stored = await stored_responses.read(user_id, response_id)
    if query.stream:
        return stored_stream.stream(user_id, stored, after=query.starting_after)
    return json_response(stored_responses.serialize(stored))


@router.delete("/{response_id}", summary="Delete a response")
async def delete_response(
    request: HttpRequest, response_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    return json_response(await stored_responses.delete(user_id, response_id))


@router.post("/{response_id}/cancel", summary="Cancel a background response")
async def cancel_response(
    request: HttpRequest, response_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    stored = await stored_responses.cancel(user_id, response_id)
    return json_response(stored_responses.serialize(stored))


@router.get("/{response_id}/input_items", summary="List what a response replied to")
async def list_input_items(
    request: HttpRequest, response_id: str, query: Query[ItemsQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    stored = await stored_responses.read(user_id, response_id)
    items = stored_responses.input_items(stored)
    return json_response(pagination.select_page(items, query))
