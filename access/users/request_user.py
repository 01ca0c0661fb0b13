"""The user of a request, from the query, a header or the body.

Source: DESIGN's first decision; a browser cannot send a body with GET.
"""

from collections.abc import Collection, Iterable
from typing import Any, Protocol, cast

from django.core.exceptions import TooManyFieldsSent
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, Field

from access.errors import TooManyParameters
from access.users import identity
from access.users.caller import caller_of
from config import live
from core.errors import Invalid
from core.ids import UserId
from core.text.sanitization import escape_and_truncate

USER_HEADER = "X-Coulisse-User"
USER_HEADER_BYTES = USER_HEADER.lower().encode()
USER_HEADER_META = "HTTP_X_COULISSE_USER"
USER_PARAMETER = "safety_identifier"

USER_HEADER_OPENAPI: dict[str, Any] = {
    "parameters": [
        {
            "in": "header",
            "name": USER_HEADER,
            "schema": {"type": "string"},
            "required": False,
            "description": "The user's stable name or id, like `safety_identifier`.",
        }
    ]
}
"""The OpenAPI parameter of the header, for every route."""

QUERY_DESCRIPTION = "The user's stable name or id."

USER_OPENAPI: dict[str, Any] = {
    "parameters": [
        *USER_HEADER_OPENAPI["parameters"],
        {
            "in": "query",
            "name": USER_PARAMETER,
            "schema": {"type": "string"},
            "required": False,
            "description": QUERY_DESCRIPTION,
        },
    ]
}
"""The same for a route that declares no `Query` parameter to ninja."""


class CallerQuery(BaseModel):
    """The query parameters that every request without a body accepts."""

    model_config = ConfigDict(extra="forbid")

    safety_identifier: str | None = Field(default=None, description=QUERY_DESCRIPTION)

    @property
    def embedding_tokens(self) -> int:
        """The approximate number of embedding tokens of the request."""
        return 0


EMPTY_QUERY = CallerQuery()
"""For routes without other query parameters, which ninja does not parse."""


class CallerBody(BaseModel):
    """The fields with which a body names its user."""

    # Strict in types too: `pinned: "no"` is not false.
    model_config = ConfigDict(extra="forbid", strict=True)

    safety_identifier: str | None = Field(default=None, description=QUERY_DESCRIPTION)
    user: str | None = Field(
        default=None, description="The older name of `safety_identifier`."
    )

    @property
    def embedding_tokens(self) -> int:
        """The approximate number of embedding tokens of the request."""
        return 0


class UserBody(Protocol):
    """A body that may name its user, such as a chat's."""

    @property
    def safety_identifier(self) -> str | None: ...

    @property
    def user(self) -> str | None: ...


def identify_user(
    request: HttpRequest, query: CallerQuery, body: UserBody | None = None
) -> UserId:
    """Return the user of a request that may name them in several places.

    Raises `Invalid` for contradictory names and for unknown query parameters, and the
    errors of `identity.resolve_user`.
    """
    user_id = find_named_user(request, query, body)
    if user_id is not None:
        return user_id
    return identity.resolve_user(live.current(), caller_of(request))


def find_named_user(
    request: HttpRequest, query: CallerQuery, body: UserBody | None = None
) -> UserId | None:
    """Return the user that a request names; None if it names no user.

    Raises as `identify_user` does, except for a missing user.
    """
    config, caller = live.current(), caller_of(request)
    names = [*_query_names(request, query), *header_names(request)]
    if body is not None:
        names += _body_names(body, include_all=caller.principal is not None)
    return single_user({identity.resolve_user(config, caller, name) for name in names})


def single_user(users: Collection[UserId]) -> UserId | None:
    """Return the only user of a request, if any; raises `Invalid` for several."""
    if len(users) > 1:
        raise Invalid(
            "the request names several users: name one user, in safety_identifier or "
            f"in the header {USER_HEADER}",
            param="safety_identifier",
            code="user_conflict",
        )
    return next(iter(users), None)


def _query_names(request: HttpRequest, query: CallerQuery) -> list[str]:
    """Return the names in the query; raises `Invalid` for unknown parameters."""
    # Most requests have no query, and parsing an empty one costs 5 µs.
    if not request.META.get("QUERY_STRING"):
        return []
    fields = type(query).model_fields.items()
    refuse_unknown(request, {field.alias or name for name, field in fields})
    return request.GET.getlist(USER_PARAMETER)


def refuse_unknown(request: HttpRequest, allowed: Collection[str]) -> None:
    """Raise `Invalid` for an unknown query parameter, which would be ignored."""
    try:
        parameters = request.GET
    except TooManyFieldsSent as exc:
        raise TooManyParameters from exc
    for name in parameters:
        if name not in allowed:
            quoted = escape_and_truncate(name)
            raise Invalid(
                f"Unrecognized query parameter: '{quoted}'; known parameters: "
                + ", ".join(sorted(allowed)),
                param=quoted,
                code="unknown_parameter",
            )


def _body_names(body: UserBody, *, include_all: bool) -> Iterable[str]:
    """Return the names in a body, or only the one that takes precedence."""
    names = [name for name in (body.safety_identifier, body.user) if name is not None]
    return names if include_all else names[:1]


def header_names(request: HttpRequest) -> list[str]:
    """Return the names in the header: two if it is sent twice."""
    if USER_HEADER_META not in request.META:
        return []
    # Django joins the values of a repeated header, which would be the name of a third
    # user.
    headers = cast(ASGIRequest, request).scope["headers"]
    return [_decode(value) for name, value in headers if name == USER_HEADER_BYTES]


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
