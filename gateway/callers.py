"""Whose request it is, where that is not said in a chat's body.

A query parameter or a header names the user, and so may a body that has more to say.
Source: DESIGN's first decision; a browser cannot send a body with GET.
"""

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, Field

from access import identity
from config import live
from core.errors import Invalid
from core.ids import UserId
from gateway import authentication

HEADER = "X-Coulisse-User"

IN_OPENAPI: dict[str, Any] = {
    "parameters": [
        {
            "in": "header",
            "name": HEADER,
            "schema": {"type": "string"},
            "required": False,
            "description": "Names the user, as `safety_identifier` does.",
        }
    ]
}
"""What each route's description adds for the header."""


class CallerQuery(BaseModel):
    """The query parameters every request without a body takes."""

    model_config = ConfigDict(extra="forbid")

    safety_identifier: str | None = Field(
        default=None, description="Names the user; any text that stays the same."
    )


class CallerBody(BaseModel):
    """The fields with which a body names its user."""

    # Strict in types too: `pinned: "no"` is not false.
    model_config = ConfigDict(extra="forbid", strict=True)

    safety_identifier: str | None = Field(default=None, description="Names the user.")
    user: str | None = Field(default=None, description="Its older name.")


def identify(
    request: HttpRequest, query: CallerQuery, body: CallerBody | None = None
) -> UserId:
    """Return the user of a request that may name them in several places.

    Raises `Invalid` for names that contradict each other and for query parameters the
    route does not know, `UserRequired` and `UserInvalid` as a chat's request does.
    """
    _refuse_unknown(request, type(query))
    config, caller = live.current(), authentication.caller_of(request)
    names = [*request.GET.getlist("safety_identifier"), *in_header(request)]
    if body is not None:
        names += _in_body(body, all=caller.principal is not None)
    users = {identity.resolve(config, caller, name) for name in names}
    if len(users) > 1:
        raise Invalid(
            "the request names two different users: name one, once, in "
            f"safety_identifier or in the header {HEADER}",
            param="safety_identifier",
            code="user_conflict",
        )
    return users.pop() if users else identity.resolve(config, caller)


def _refuse_unknown(request: HttpRequest, query: type[CallerQuery]) -> None:
    """Raise `Invalid` for a query parameter that would be ignored."""
    fields = query.model_fields.items()
    known = {field.alias or name for name, field in fields}
    for name in request.GET:
        if name not in known:
            raise Invalid(
                f"Unrecognized query parameter: '{name}'; there are "
                + ", ".join(sorted(known)),
                param=name,
                code="unknown_parameter",
            )


def _in_body(body: CallerBody, *, all: bool) -> Iterable[str]:
    """Return the names in a body, or the one that counts, as in a chat's request."""
    given = [body.safety_identifier, body.user]
    names = [name for name in given if name is not None]
    return names if all else names[:1]


def in_header(request: HttpRequest) -> Iterable[str]:
    """Return the name in the header, if there is one."""
    name = request.headers.get(HEADER)
    if name is None:
        return ()
    # Headers reach us as Latin-1, whatever the client wrote.
    raw = name.encode("latin-1")
    try:
        return (raw.decode(),)
    except UnicodeDecodeError:
        return (name,)
