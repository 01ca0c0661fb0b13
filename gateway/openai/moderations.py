"""`/v1/moderations`: answered by a provider with OpenAI's endpoint."""

from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Body, Query, Router
from pydantic import Field, StringConstraints

from access.users.caller import caller_of
from access.users.request_user import CallerBody, CallerQuery
from api_base.json_responses import json_response
from config import live
from gateway.openai.embeddings import refuse_agent_tokens
from gateway.schemas import ImagePart, Items, TextPart
from providers import moderation

MAX_INPUTS = 2048

router = Router(tags=["Moderations"])


class ModerationRequest(CallerBody):
    """Body of `POST /v1/moderations`."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = None
    input: (
        Annotated[str, StringConstraints(min_length=1)]
        | Annotated[Items[str], Field(min_length=1, max_length=MAX_INPUTS)]
        | Annotated[
            Items[Annotated[TextPart | ImagePart, Field(discriminator="type")]],
            Field(min_length=1, max_length=MAX_INPUTS),
        ]
    )


@router.post("", summary="Classify content")
async def create_moderation(
    request: HttpRequest, query: Query[CallerQuery], body: Body[ModerationRequest]
) -> HttpResponse:
    refuse_agent_tokens(caller_of(request))
    name = body.model or moderation.DEFAULT_MODEL
    return json_response(await moderation.moderate(live.current(), name, body.input))
