"""A chat with any agent as any user, with the details of each turn."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

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
from core.ids import new_turn_id
from core.messages import Message
from core.runtime import request_ids
from gateway.openai import chat, sse
from gateway.openai.chat import EventStream
from studio.base.views import StudioView
from turns.preparation import options, routing
from turns.turn import TurnRequest

logger = logging.getLogger(__name__)

INCOGNITO_METADATA = {"memory": "incognito"}
TURN_HEADER = "X-Coulisse-Turn"
"""The turn's id: a turn that fails before its first event has no other place for it."""


class PlaygroundMessage(BaseModel):
    """A message to an agent."""

    model_config = ConfigDict(extra="forbid")

    agent: str = Field(description="An agent or an experiment.")
    user: str = Field(
        min_length=1, max_length=512, description="As clients would name the user."
    )
    message: str = Field(min_length=1)
    thread_id: str | None = Field(None, description="The user's default one, if none.")
    incognito: bool = Field(False, description="Whether no row is to remember it.")


class PlaygroundOptions(BaseModel):
    """The available agents, and the default user of the page."""

    agents: list[str] = Field(description="Agents and experiments.")
    agent: str = Field(description="Whom the page begins with.")
    user: str


class PlaygroundView(StudioView):
    """`/admin/playground`."""

    title = "Playground"
    template = "studio/operations/playground.html"

    @extend_schema(summary="List who can be talked to", responses=PlaygroundOptions)
    def get(self, request: Request) -> Response:
        """List the agents and experiments, and the default user."""
        query = request.query_params
        agents = routing.list_names(live.current())
        chosen = query.get("agent") or (agents[0] if agents else "")
        user = query.get("user") or f"playground-{request.user.username}"
        told: dict[str, Any] = {"agents": agents, "agent": chosen, "user": user}
        return self.respond(told)


class PlaygroundTurnView(StudioView):
    """`/admin/playground/turns`."""

    title = "Playground"
    breadcrumbs = [("Playground", "/admin/playground")]

    @extend_schema(
        operation_id="playground_say",
        summary="Say something to an agent",
        request=PlaygroundMessage,
        responses={(200, "text/event-stream"): OpenApiTypes.STR},
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Run a turn; its events have the format of `/v1/chat/completions`."""
        asked = build_turn_request(self.parse_body(PlaygroundMessage))
        answer = EventStream(stream_frames(asked))
        answer.headers[TURN_HEADER] = str(asked.turn_id)
        return answer


def build_turn_request(said: PlaygroundMessage) -> TurnRequest:
    """Return the requested turn: like any client's, without a credential."""
    routing.check_name(live.current(), said.agent)
    metadata = {} if said.thread_id is None else {"thread_id": said.thread_id}
    return TurnRequest(
        turn_id=new_turn_id(),
        agent=said.agent,
        user_id=identity.derive_user_id(identity.check_identifier(said.user)),
        messages=[Message(role="user", content=said.message)],
        options=options.read_options(
            {**metadata, **(INCOGNITO_METADATA if said.incognito else {})}
        ),
        parameters={},
        stream=True,
        caller=ANONYMOUS,
        request_id=request_ids.current.get(),
    )


async def stream_frames(turn: TurnRequest) -> AsyncGenerator[bytes]:
    """Yield the turn as server-sent events; an error before the first is one, too."""
    try:
        answer = await chat.stream_turn(turn, include_usage=True)
    except CoulisseError as exc:
        yield sse.error_frame(exc, for_operators=True) + sse.DONE
        return
    except Exception:
        logger.exception("a turn of the playground failed")
        yield sse.error_frame(None) + sse.DONE
        return
    async with aclosing(cast(AsyncGenerator[bytes], aiter(answer))) as told:
        async for frame in told:
            yield frame
