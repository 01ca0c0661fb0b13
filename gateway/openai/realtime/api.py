"""`/v1/realtime`: keys with which browsers speak to an agent, and its tools.

The audio goes from the browser to the provider. Source of the key: OpenAI's API
reference, "Create client secret".
"""

from dataclasses import asdict, replace

from django.http import HttpRequest, HttpResponse
from ninja import Body, Router

from access.users import request_user
from access.users.caller import caller_of
from access.users.request_user import identify_user
from api_base.json_responses import json_response
from config import live
from core import ids
from core.messages import Message, ToolCall
from gateway.openai.realtime.schemas import (
    ClientSecretObject,
    ClientSecretRequest,
    ToolCallOutput,
    ToolCallRequest,
    VoiceAddress,
)
from gateway.openai.responses import request_conversion
from turns import idempotency
from turns.preparation import options
from turns.turn import TurnRequest
from turns.voice import client_secrets, tool_calls

router = Router(tags=["Realtime"])


@router.post(
    "/client_secrets",
    summary="Create a key for a conversation by voice",
    response=ClientSecretObject,
    openapi_extra=options.TURN_OPENAPI,
)
async def create_client_secret(
    request: HttpRequest, body: Body[ClientSecretRequest]
) -> HttpResponse:
    session = body.session
    turn = _to_turn_request(request, body, session.model)
    turn = replace(turn, tools=request_conversion.to_chat_tools(session.tools or ()))
    if session.instructions:
        instructions = Message("system", session.instructions)
        turn = replace(turn, messages=[*turn.messages, instructions])
    secret, headers = await client_secrets.create(
        turn, session.passed_fields(), lifetime_seconds=body.expires_after.seconds
    )
    address = VoiceAddress(calls_url=secret.calls_url)
    fields = {**asdict(secret), "coulisse": address}
    return json_response(ClientSecretObject.model_validate(fields), headers=headers)


@router.post(
    "/tool_calls",
    summary="Run a tool of an agent in a conversation by voice",
    response=ToolCallOutput,
    openapi_extra=options.TURN_OPENAPI,
)
async def run_tool_call(
    request: HttpRequest, body: Body[ToolCallRequest]
) -> HttpResponse:
    turn = _to_turn_request(request, body, body.model)
    if body.item_id is not None:
        key = idempotency.digest(body.item_id.encode())
        spoken_turn = ids.derive_turn_id(turn.user_id, turn.options.thread, key)
        turn = replace(turn, spoken_turn=spoken_turn)
    call = ToolCall(body.call_id, body.name, body.arguments)
    output = await tool_calls.run(turn, call, _call_key(request, turn, body))
    return json_response(ToolCallOutput(call_id=body.call_id, output=output))


def _call_key(request: HttpRequest, turn: TurnRequest, body: ToolCallRequest) -> str:
    """Return what a repetition of a call has in common with it.

    It is the whole request: some providers count calls from one in each session.
    """
    metadata = options.request_metadata(request, body.metadata)
    work = idempotency.digest_request(body, metadata)
    return idempotency.digest(f"{turn.user_id.hex} {work}".encode())


def _to_turn_request(
    request: HttpRequest, body: ClientSecretRequest | ToolCallRequest, agent: str
) -> TurnRequest:
    """Return the turn whose instructions, memory and tools a request needs."""
    metadata = options.request_metadata(request, body.metadata)
    read = options.read_options(metadata)
    return TurnRequest(
        agent=agent,
        user_id=identify_user(request, request_user.EMPTY_QUERY, body),
        messages=[client_secrets.SPOKEN],
        options=options.for_agent(live.current(), agent, read),
        parameters={},
        caller=caller_of(request),
        origin="voice",
    )
