"""`/v1`: what OpenAI's clients call."""

import time
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from ninja import Body, NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.parser import Parser

from config import live
from core.errors import CoulisseError, Invalid
from gateway import (
    authentication,
    chat,
    errors,
    feedback,
    mcp_connections,
    memories,
    my_data,
    requests,
    tasks,
    turns,
    wire,
)
from gateway.schemas import ChatRequest
from gateway.session import LoginRequired
from turns import routing

STARTED_AT = int(time.time())
"""When this process began to offer its models, in seconds since 1970."""


class JsonParser(Parser):
    """Reads bodies with orjson; refuses what a browser can send without asking."""

    def parse_body(self, request: HttpRequest) -> Any:
        if request.content_type != "application/json":
            # Any web page may post a form or plain text to a server on this machine.
            raise Invalid(
                "Send the body as JSON, with the header Content-Type: application/json",
                code="unsupported_content_type",
            )
        try:
            return orjson.loads(request.body)
        except orjson.JSONDecodeError as exc:
            raise Invalid(
                f"The body is not valid JSON: {exc}", code="invalid_json"
            ) from exc


def _login_at(request: HttpRequest, exc: LoginRequired) -> HttpResponse:
    """Send a browser to where its user logs in."""
    return HttpResponseRedirect(exc.location)


api = NinjaAPI(
    title="Coulisse",
    version="0.1.0",
    parser=JsonParser(),
    auth=authentication.authenticate,
    docs_url=None,
    openapi_url="/openapi.json",
    urls_namespace="v1",
)
api.exception_handler(CoulisseError)(errors.on_domain_error)
api.exception_handler(LoginRequired)(_login_at)
api.exception_handler(ValidationError)(errors.on_invalid_body)
api.exception_handler(HttpError)(errors.on_http_error)
api.exception_handler(Exception)(errors.on_internal_error)
api.add_router("/feedback", feedback.router)
api.add_router("/mcp", mcp_connections.router)
api.add_router("/memories", memories.router)
api.add_router("/tasks", tasks.router)
api.add_router("/turns", turns.router)
api.add_router("/users/me", my_data.router)


@api.post("/chat/completions", tags=["Chat"], summary="Create a chat completion")
async def create_completion(
    request: HttpRequest, body: Body[ChatRequest]
) -> HttpResponseBase:
    turn = requests.to_turn(body, authentication.caller_of(request))
    if turn.stream:
        options = body.stream_options
        return await chat.stream(
            turn, include_usage=options is not None and options.include_usage
        )
    return await chat.complete(turn)


@api.get("/models", tags=["Models"], summary="List the agents and experiments")
async def list_models(request: HttpRequest) -> HttpResponse:
    caller = authentication.caller_of(request)
    names = filter(caller.may_call, routing.names(live.current()))
    models = [wire.model(name, STARTED_AT) for name in names]
    return errors.json_response({"object": "list", "data": models})


@api.get("/models/{path:name}", tags=["Models"], summary="Show one agent or experiment")
async def show_model(request: HttpRequest, name: str) -> HttpResponse:
    caller = authentication.caller_of(request)
    routing.check(live.current(), name, offered=caller.agents)
    return errors.json_response(wire.model(name, STARTED_AT))
