"""Limits on the endpoints of `/v1` that run no turn.

Applied to whole routers where they are mounted, so that no endpoint can omit them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from typing import Any, cast

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from access.users.caller import caller_of
from access.users.request_user import identify_user
from config import live
from turns.budget import request_limits
from turns.budget.request_usage import UsageRequest

Endpoint = Callable[..., Awaitable[HttpResponseBase]]


def limit_requests(endpoint: Endpoint, *, needs_budget: bool) -> Endpoint:
    """Count each call as a request; with `needs_budget`, refuse tokens whose budget is
    spent."""

    @wraps(endpoint)
    async def limited_endpoint(
        request: HttpRequest, **arguments: Any
    ) -> HttpResponseBase:
        usage = _usage_request(request, arguments, needs_budget=needs_budget)
        async with request_limits.admit(usage) as admitted:
            response = await endpoint(request, **arguments)
            for name, value in admitted.headers.items():
                response.headers[name] = value
            if isinstance(response, StreamingHttpResponse):
                content = cast(AsyncIterator[bytes], response.streaming_content)
                response.streaming_content = admitted.stream(content)
            return response

    return limited_endpoint


def _usage_request(
    request: HttpRequest, arguments: dict[str, Any], *, needs_budget: bool
) -> UsageRequest:
    """Return the usage request of a call, from the endpoint's arguments.

    Each of these endpoints has its query in `query`, and its body, if any, in `body`.
    """
    query, body = arguments["query"], arguments.get("body")
    return UsageRequest(
        live.current(),
        caller_of(request),
        identify_user(request, query, body),
        query.embedding_tokens + (0 if body is None else body.embedding_tokens),
        needs_budget=needs_budget,
    )
