"""`/v1`: the API that OpenAI's clients call."""

from functools import partial
from typing import Any

import orjson
from django.core.exceptions import TooManyFieldsSent
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from ninja import NinjaAPI, Router
from ninja.errors import HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from ninja.parser import Parser

from access.users.request_user import OPENAPI_PARAMETERS
from core.errors import CoulisseError, Invalid
from core.version import VERSION
from files.api import router as files
from gateway import errors, model_list
from gateway.anthropic import api as messages
from gateway.auth import authentication, usage_limits
from gateway.auth.browser_session import LoginRequired
from gateway.mcp_oauth import connections
from gateway.openai import (
    chat_api,
    completions,
    embeddings,
    moderations,
)
from gateway.openai.conversations import api as conversations
from gateway.openai.realtime import api as realtime
from gateway.openai.responses import api as responses
from gateway.request_validation import json_limits
from judges.api import router as feedback
from memory.api import memories, user_data
from telemetry.api import router as turns
from turns.api import router as tasks
from turns.threads import api as threads


class JsonBodyParser(Parser):
    """Parses JSON bodies with orjson; refuses other content types."""

    def parse_body(self, request: HttpRequest) -> Any:
        json_limits.check_content_type(request)
        try:
            return json_limits.parse_json(request.body)
        except orjson.JSONDecodeError as exc:
            raise Invalid(
                f"The body is not valid JSON: {exc}", code="invalid_json"
            ) from exc


def _redirect_to_login(request: HttpRequest, exc: LoginRequired) -> HttpResponse:
    return HttpResponseRedirect(exc.location)


class Api(NinjaAPI):
    """`/v1`, with operation ids that do not depend on module names."""

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        """Return the schema; each route has the parameters that name its user."""
        schema = super().get_openapi_schema(**options)
        for methods in schema["paths"].values():
            for operation in methods.values():
                parameters = operation["parameters"]
                names = {parameter["name"] for parameter in parameters}
                parameters += [
                    each for each in OPENAPI_PARAMETERS if each["name"] not in names
                ]
        return schema

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Return the function's name; ninja's own ids start with its module."""
        return operation.view_func.__name__


api = Api(
    title="Coulisse",
    version=VERSION,
    parser=JsonBodyParser(),
    auth=authentication.authenticate,
    docs_url=None,
    openapi_url="/openapi.json",
    urls_namespace="v1",
)
api.exception_handler(CoulisseError)(errors.on_domain_error)
api.exception_handler(LoginRequired)(_redirect_to_login)
api.exception_handler(ValidationError)(errors.on_invalid_body)
api.exception_handler(TooManyFieldsSent)(errors.on_long_query)
api.exception_handler(HttpError)(errors.on_http_error)
api.exception_handler(Exception)(errors.on_internal_error)

# First, because Django compares an address with one pattern after the other. A
# completion counts as a turn does; the endpoints of stored ones count themselves.
api.add_router("/chat/completions", chat_api.router)

LIMITED_ROUTERS: dict[str, Router] = {"/memories": memories.router}
"""Endpoints that count as requests and need a budget that is not spent."""
REQUEST_LIMITED_ROUTERS: dict[str, Router] = {
    "/conversations": conversations.router,
    "/feedback": feedback,
    "/files": files,
    "/mcp": connections.router,
    "/moderations": moderations.router,
    "/threads": threads.router,
    "/turns": turns,
    # Users may export and erase their data even when the budget is spent.
    "/users/me": user_data.router,
}
"""Endpoints that count as requests and cost nothing."""
UNLIMITED_ROUTERS: dict[str, Router] = {
    "/completions": completions.router,
    # They count as requests, once the API that computes the vectors is known.
    "/embeddings": embeddings.router,
    # A message counts as a turn does; its endpoint for token counts counts itself.
    "/messages": messages.router,
    # The lists of models call none.
    "/models": model_list.router,
    # A key and a tool call count as turns do.
    "/realtime": realtime.router,
    # A new response counts as a turn does, for which its tokens are reserved.
    "/responses": responses.router,
    # A task counts when its turn runs. Clients poll its state until then.
    "/tasks": tasks,
}

for path, router in LIMITED_ROUTERS.items():
    router.add_decorator(partial(usage_limits.limit_requests, needs_budget=True))
    api.add_router(path, router)
for path, router in REQUEST_LIMITED_ROUTERS.items():
    router.add_decorator(partial(usage_limits.limit_requests, needs_budget=False))
    api.add_router(path, router)
for path, router in UNLIMITED_ROUTERS.items():
    api.add_router(path, router)
