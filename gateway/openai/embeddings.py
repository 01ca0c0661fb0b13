"""`/v1/embeddings`: vectors of texts, by the embedders that memory can use."""

import asyncio
import base64
from typing import Annotated, Any, Literal

import orjson
from django.http import HttpRequest, HttpResponse
from ninja import Body, Router
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from access.errors import AgentsOnly
from access.users import request_user
from access.users.caller import Caller, caller_of
from access.users.request_user import CallerBody
from api_base.json_responses import json_response
from config import live
from config.sections import Config
from core import money
from core.errors import Invalid
from gateway.openai.serializers import COST_HEADER
from memory import memory_settings
from providers.embeddings import embedders, embedding_models, usage_collector
from providers.embeddings.base import Embedder, Rows
from providers.embeddings.config import MAX_DIMENSIONS, EmbedderConfig
from providers.errors import ModelUnknown
from turns.budget import request_limits
from turns.budget.request_limits import AdmittedRequest
from turns.budget.request_usage import UsageRequest

MAX_TEXTS = 2048
MAX_TOKENS = 300_000
"""Estimated tokens of all texts together. Both limits are OpenAI's."""
MAX_NUMBERS = 2048 * 3072
"""Numbers of all vectors together: the most that OpenAI's models return."""
ROWS_AT_ONCE = 64
"""Vectors that are encoded before others of the event loop have their turn."""

router = Router(tags=["Embeddings"])


def _as_list(value: Any) -> Any:
    """Return the texts as a list; refuses tokens, whose vocabulary is unknown."""
    if isinstance(value, list) and value and isinstance(value[0], int | list):
        raise PydanticCustomError(
            "tokens",
            "must be a string or a list of strings: arrays of tokens are not "
            "supported, because models differ in their tokens",
        )
    return [value] if isinstance(value, str) else value


def _refuse_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "must not be blank")
    return text


Texts = Annotated[
    list[Annotated[str, AfterValidator(_refuse_blank)]],
    Field(min_length=1, max_length=MAX_TEXTS, fail_fast=True),
    BeforeValidator(_as_list),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "maxItems": MAX_TEXTS},
            ]
        }
    ),
]


class EmbeddingRequest(CallerBody):
    """Body of `POST /v1/embeddings`."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    input: Texts
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, le=MAX_DIMENSIONS)] | None = None


@router.post("", summary="Embed texts")
async def create_embeddings(
    request: HttpRequest, body: Body[EmbeddingRequest]
) -> HttpResponse:
    config, caller = live.current(), caller_of(request)
    user_id = request_user.identify_user(request, request_user.EMPTY_QUERY, body)
    refuse_agent_tokens(caller)
    embed_with = _memory_settings(config)
    embedder = embedding_models.find_embedder(
        config, body.model, embed_with, dimensions=body.dimensions
    )
    tokens = _check_size(body, embedder)
    api = embedder.api
    usage = UsageRequest(
        config,
        caller,
        user_id,
        embedding_tokens=0 if api is None else tokens,
        embedding_api=None if api is None else api.source,
    )
    async with request_limits.admit(usage) as admitted:
        try:
            rows = await embedders.embed_texts(embedder, body.input)
        except ModelUnknown as exc:
            unknown = embedding_models.unknown_model(config, body.model, embed_with)
            unknown.detail = str(exc)
            raise unknown from exc
        return await _respond(body, rows, admitted, tokens)


def refuse_agent_tokens(caller: Caller) -> None:
    """Raise `AgentsOnly` for a token that is limited to certain agents."""
    if caller.agents is not None:
        raise AgentsOnly


def _memory_settings(config: Config) -> EmbedderConfig | None:
    memory = memory_settings.resolve_for_users(config)
    return None if memory is None else memory.user_state.embed_with


def _check_size(body: EmbeddingRequest, embedder: Embedder) -> int:
    """Return the estimated tokens; raises `Invalid` for too many of them, or numbers.

    Vectors whose length only the API knows are limited by the size of its reply.
    """
    tokens = usage_collector.estimate_tokens(body.input)
    if tokens > MAX_TOKENS:
        raise Invalid(
            f"The texts have about {tokens:,} tokens together, and a request may have "
            f"{MAX_TOKENS:,}; send them in several requests",
            param="input",
            code="too_many_tokens",
        )
    if len(body.input) * embedder.dimensions > MAX_NUMBERS:
        raise Invalid(
            f"{len(body.input):,} vectors of {embedder.dimensions:,} dimensions are "
            f"more than {MAX_NUMBERS:,} numbers; send the texts in several requests",
            param="input",
            code="too_many_vectors",
        )
    return tokens


async def _respond(
    body: EmbeddingRequest, rows: Rows, admitted: AdmittedRequest, tokens: int
) -> HttpResponse:
    """Return OpenAI's list of embeddings, with the tokens that the API counted."""
    charge = admitted.charge()
    used = charge.tokens if admitted.calls else tokens
    vectors = await _encode(rows, body.encoding_format or "float")
    cost = money.decimal_usd(charge.micro_usd)
    return json_response(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": vector}
                for index, vector in enumerate(vectors)
            ],
            "model": body.model,
            "usage": {"prompt_tokens": used, "total_tokens": used},
        },
        headers={
            **({COST_HEADER: cost} if charge.is_priced else {}),
            **admitted.headers,
        },
    )


async def _encode(
    rows: Rows, encoding_format: Literal["float", "base64"]
) -> list[str | orjson.Fragment]:
    """Return each vector as JSON: numbers, or little-endian floats in base64."""
    encoded: list[str | orjson.Fragment] = []
    for number, row in enumerate(rows):
        if number % ROWS_AT_ONCE == ROWS_AT_ONCE - 1:
            await asyncio.sleep(0)
        if encoding_format == "base64":
            encoded.append(base64.b64encode(row.astype("<f4").tobytes()).decode())
        else:
            text = orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)
            encoded.append(orjson.Fragment(text))
    return encoded
