"""A turn as an HTTP response, complete or as a stream, in the format of an endpoint."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from django.http import HttpResponse

from api_base.json_responses import json_response
from config import live
from config.config import SERVER
from core.errors import CoulisseError
from core.events import Event, ServedBy, TurnStarted
from core.reply import Reply
from gateway.asgi.event_stream import EventStream
from gateway.openai import serializers
from gateway.openai.sse import Encoder
from turns import flow
from turns.turn import TurnRequest

logger = logging.getLogger(__name__)


def served_by_headers(served_by: ServedBy) -> dict[str, str]:
    headers = serializers.serving_headers(served_by.provider, served_by.attempts)
    if served_by.model:
        headers[serializers.MODEL_HEADER] = quote(served_by.model)
    if served_by.rescues:
        headers[serializers.RESCUES_HEADER] = str(served_by.rescues)
    if served_by.safety is not None:
        headers[serializers.SAFETY_HEADER] = serializers.format_safety(served_by.safety)
    return headers


async def complete(
    request: TurnRequest, serialize: Callable[[Reply], dict[str, Any]]
) -> HttpResponse:
    """Run a turn and return the complete reply."""
    reply = Reply()
    headers: Mapping[str, str] = {}
    async with aclosing(flow.run(request)) as events:
        async for event in events:
            if isinstance(event, TurnStarted):
                headers = event.headers
            reply.add(event)
    if reply.served_by is not None:
        headers = {**headers, **served_by_headers(reply.served_by)}
        if (cost := serializers.format_cost(reply.served_by)) is not None:
            headers[serializers.COST_HEADER] = cost
    body = serialize(reply)
    if (model := _shown_model(reply.served_by)) is not None:
        body["model"] = model
    return json_response(body, headers=headers)


def _shown_model(served_by: ServedBy | None) -> str | None:
    """Return the model that a reply names; None for the agent's name."""
    is_shown = live.current().get(SERVER).response_model == "model"
    return (served_by.model or None) if is_shown and served_by is not None else None


async def stream(request: TurnRequest, encoder: Encoder) -> EventStream:
    """Run a turn and stream its events.

    Waits for the first event, so that earlier errors have their own HTTP status.
    """
    events = flow.run(request)
    started = await anext(events)
    first = await anext(events)
    headers: Mapping[str, str] = {}
    if isinstance(started, TurnStarted):
        headers = {**started.headers, **served_by_headers(started.served_by)}
        if (model := _shown_model(started.served_by)) is not None:
            encoder.show_model(model)
    return EventStream(
        _encode_frames(encoder, first, events),
        headers=headers,
        encode_shutdown=lambda error: (
            encoder.failure_frame(error) + encoder.last_frame()
        ),
    )


async def _encode_frames(
    encoder: Encoder, first: Event, events: AsyncGenerator[Event]
) -> AsyncGenerator[bytes]:
    async with aclosing(events):
        yield encoder.first_frame() + encoder.encode(first)
        try:
            async for event in events:
                if frame := encoder.encode(event):
                    yield frame
        except CoulisseError as exc:
            logger.warning("the stream of %s failed: %s", encoder.id, exc)
            yield encoder.failure_frame(exc)
        except Exception:
            logger.exception("the stream of %s failed", encoder.id)
            yield encoder.failure_frame(None)
        if last := encoder.last_frame():
            yield last
