"""A chat with any agent as any user, with the details of each turn."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field
from rest_framework.request import Request
from rest_framework.response import Response

from access.users import identity
from access.users.caller import ANONYMOUS
from config import live
from core.errors import CoulisseError
from core.messages import Message
from gateway.asgi.event_stream import EventStream
from gateway.openai import sse, turn_response
from gateway.openai.sse import ChunkEncoder
from studio.base.views import StudioView
from turns.preparation import options, routing
from turns.turn import TurnRequest

logger = logging.getLogger(__name__)

INCOGNITO_METADATA = {"memory": "incognito"}
TURN_HEADER = "X-Coulisse-Turn"
"""Carries the turn's id, also of a turn that fails before its first event."""


class PlaygroundMessage(BaseModel):
    """A message to an agent."""

    model_config = ConfigDict(extra="forbid")

    agent: str = Field(description="An agent or an experiment.")
    user: str = Field(
        min_length=1, max_length=512, description="The user, as clients send it."
    )
    message: str = Field(min_length=1)
    thread_id: str | None = Field(None, description="By default the default thread.")
    incognito: bool = Field(False, description="Whether the turn is not stored.")


class PlaygroundOptions(BaseModel):
    """The available agents, and the default user of the page."""

    agents: list[str] = Field(description="Agents and experiments.")
    agent: str = Field(description="The selected agent.")
    user: str = Field(description="The default user.")


class PlaygroundView(StudioView):
    """`/admin/playground`."""

    title = "Playground"
    template = "studio/operations/playground.html"

    @extend_schema(
        summary="List the agents of the playground", responses=PlaygroundOptions
    )
    def get(self, request: Request) -> Response:
        """List the agents and experiments, and the default user."""
        query = request.query_params
        agents = routing.list_names(live.current())
        agent = query.get("agent") or (agents[0] if agents else "")
        user = query.get("user") or f"playground-{request.user.username}"
        return self.respond({"agents": agents, "agent": agent, "user": user})


class PlaygroundTurnView(StudioView):
    """`/admin/playground/turns`."""

    title = "Playground"
    breadcrumbs = [("Playground", "/admin/playground")]

    @extend_schema(
        operation_id="playground_send",
        summary="Send a message to an agent",
        request=PlaygroundMessage,
        responses={(200, "text/event-stream"): OpenApiTypes.STR},
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Run a turn; its events have the format of `/v1/chat/completions`."""
        turn = build_turn_request(self.parse_body(PlaygroundMessage))
        return EventStream(
            stream_frames(turn),
            headers={TURN_HEADER: str(turn.turn_id)},
            encode_shutdown=lambda error: sse.error_frame(error) + sse.DONE,
        )


def build_turn_request(body: PlaygroundMessage) -> TurnRequest:
    """Return the requested turn: like a client's, without a credential."""
    routing.check_name(live.current(), body.agent)
    metadata = {} if body.thread_id is None else {"thread_id": body.thread_id}
    return TurnRequest(
        agent=body.agent,
        user_id=identity.derive_user_id(identity.check_identifier(body.user)),
        messages=[Message(role="user", content=body.message)],
        options=options.read_options(
            {**metadata, **(INCOGNITO_METADATA if body.incognito else {})}
        ),
        parameters={},
        stream=True,
        caller=ANONYMOUS,
    )


async def stream_frames(turn: TurnRequest) -> AsyncGenerator[bytes]:
    """Yield the turn as server-sent events, an error before the first one as well."""
    try:
        encoder = ChunkEncoder(turn, include_usage=True)
        stream = await turn_response.stream(turn, encoder)
    except CoulisseError as exc:
        yield sse.error_frame(exc, for_operators=True) + sse.DONE
        return
    except Exception:
        logger.exception("playground turn failed")
        yield sse.error_frame(None) + sse.DONE
        return
    async with aclosing(cast(AsyncGenerator[bytes], aiter(stream))) as frames:
        async for frame in frames:
            yield frame
