"""`/v1/chat/completions`."""

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Body, Query, Router

from access.users import request_user
from access.users.caller import caller_of
from access.users.request_user import CallerQuery, identify_user
from api_base.json_responses import json_response
from gateway.auth import usage_limits
from gateway.openai import (
    request_conversion,
    serializers,
    stored_completions,
    turn_response,
)
from gateway.openai.sse import ChunkEncoder
from gateway.openai.stored_completions import (
    CompletionChange,
    CompletionMessagesQuery,
    CompletionsQuery,
)
from gateway.schemas import ChatRequest
from turns.preparation import options

router = Router(tags=["Chat"])

counted = partial(usage_limits.limit_requests, needs_budget=False)
"""A new completion counts as a turn; the other requests are counted by this."""


# The query has one parameter, which `identify_user` reads: ninja's parsing of a query
# costs more than the rest of this function.
@router.post(
    "",
    summary="Create a chat completion",
    openapi_extra=options.TURN_OPENAPI,
)
async def create_completion(
    request: HttpRequest, body: Body[ChatRequest]
) -> HttpResponseBase:
    user_id = identify_user(request, request_user.EMPTY_QUERY, body)
    metadata = options.request_metadata(request, body.metadata)
    turn = request_conversion.to_turn_request(
        body, caller_of(request), user_id, metadata
    )
    if turn.stream:
        encoder = ChunkEncoder(turn, include_usage=body.wants_usage)
        return await turn_response.stream(turn, encoder)
    head = serializers.new_head(turn.turn_id, turn.agent)
    serialize = partial(serializers.serialize_completion, head)
    return await turn_response.complete(turn, serialize)


@router.get("", summary="List stored chat completions")
@counted
async def list_completions(
    request: HttpRequest, query: Query[CompletionsQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    return json_response(await stored_completions.list_completions(user_id, query))


@router.get("/{completion_id}", summary="Show a stored chat completion")
@counted
async def show_completion(
    request: HttpRequest, completion_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    completion = await stored_completions.read(user_id, completion_id)
    return json_response(stored_completions.serialize(completion))


@router.post(
    "/{completion_id}", summary="Change the metadata of a stored chat completion"
)
@counted
async def change_completion(
    request: HttpRequest,
    completion_id: str,
    query: Query[CallerQuery],
    body: Body[CompletionChange],
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    completion = await stored_completions.change(user_id, completion_id, body.metadata)
    return json_response(stored_completions.serialize(completion))


@router.delete("/{completion_id}", summary="Delete a stored chat completion")
@counted
async def delete_completion(
    request: HttpRequest, completion_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    return json_response(await stored_completions.delete(user_id, completion_id))


@router.get(
    "/{completion_id}/messages", summary="List what a stored chat completion replied to"
)
@counted
async def list_completion_messages(
    request: HttpRequest, completion_id: str, query: Query[CompletionMessagesQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    completion = await stored_completions.read(user_id, completion_id)
    return json_response(stored_completions.serialize_messages(completion, query))
