"""A turn as a chat completion: complete, or as a stream."""

from functools import partial

from django.http import HttpResponse

from gateway.asgi.event_stream import EventStream
from gateway.openai import serializers, turn_response
from gateway.openai.sse import FrameEncoder
from turns.turn import TurnRequest


async def complete_turn(request: TurnRequest) -> HttpResponse:
    """Run a turn and return the complete reply."""
    head = serializers.new_head(request.turn_id, request.agent)
    serialize = partial(serializers.serialize_completion, head)
    return await turn_response.complete(request, serialize)


async def stream_turn(request: TurnRequest, *, include_usage: bool) -> EventStream:
    """Run a turn and stream its events."""
    head = serializers.new_head(request.turn_id, request.agent)
    encoder = FrameEncoder(head, include_usage=include_usage)
    return await turn_response.stream(request, encoder)
