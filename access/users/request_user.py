"""The user of a request, from the query, a header or the body.

The query is for browsers, which cannot send a body with GET.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast, get_origin

from django.core.exceptions import TooManyFieldsSent
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, Field

from access.config import USERS
from access.errors import ThreadRequired, TooManyParameters
from access.users import identity
from access.users.caller import Caller, caller_of
from config import live
from config.sections import Config
from core.errors import Invalid
from core.ids import UserId
from core.runtime import request_facts
from core.text.sanitization import escape_and_truncate

USER_HEADER = "X-Coulisse-User"
THREAD_HEADER = "X-Coulisse-Thread"
USER_PARAMETER = "safety_identifier"

QUERY_DESCRIPTION = "The user's stable name or id."
OPENAPI_PARAMETERS: tuple[dict[str, Any], ...] = tuple(
    {
        "in": place,
        "name": name,
        "schema": {"type": "string"},
        "required": False,
        "description": description,
    }
    for place, name, description in (
        ("query", USER_PARAMETER, QUERY_DESCRIPTION),
        ("header", USER_HEADER, f"{QUERY_DESCRIPTION[:-1]}, like `{USER_PARAMETER}`."),
    )
)
"""The parameters of every route that name its user."""


@dataclass(frozen=True, slots=True)
class GivenName:
    """A name of a user or a thread in a request."""

    name: str
    param: str
    """The field, parameter or header that it is in."""
    is_header: bool = False

    @property
    def place(self) -> str:
        return f"the header {self.param}" if self.is_header else self.param

    def __str__(self) -> str:
        return f"'{escape_and_truncate(self.name)}' in {self.place}"


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
    errors of `identity.resolve_user`. The request log shows a digest of the user.
    """
    user_id = find_named_user(request, query, body)
    if user_id is None:
        user_id = _unnamed_user(request, body)
    request_facts.note(user=user_id)
    return user_id


def _unnamed_user(request: HttpRequest, body: UserBody | None) -> UserId:
    config, caller = live.current(), caller_of(request)
    if config.get(USERS).mode == "per-thread" and caller.principal is None:
        thread = _thread_name(request, config, body)
        if not thread:
            raise ThreadRequired
        return identity.user_of_thread(thread)
    return identity.resolve_user(config, caller)


def _thread_name(
    request: HttpRequest, config: Config, body: UserBody | None
) -> str | None:
    """Return the thread that a request names in its metadata or a header."""
    metadata = getattr(body, "metadata", None) or {}
    headers = header_values(request, THREAD_HEADER, config.get(USERS).headers.thread)
    names = [metadata.get("thread_id"), *(given.name for given in headers)]
    return next(filter(None, names), None)


def find_named_user(
    request: HttpRequest, query: CallerQuery, body: UserBody | None = None
) -> UserId | None:
    """Return the user that a request names; None if it names no user.

    Raises as `identify_user` does, except for a missing user.
    """
    config, caller = live.current(), caller_of(request)
    names = [*_query_names(request, query), *header_names(request, config)]
    if body is not None:
        names += _body_names(body)
    if caller.client_users == "ignore":
        return None
    return single_user(config, caller, names)


def single_user(
    config: Config, caller: Caller, names: Iterable[GivenName]
) -> UserId | None:
    """Return the user of all the names; None without a name.

    Raises `Invalid` for names of two users, and as `identity.resolve_user` does.
    """
    user_id, first = None, None
    for given in names:
        named = identity.resolve_user(config, caller, given.name)
        if first is not None and named != user_id:
            raise Invalid(
                f"the request names two users, {first} and {given}: name one",
                param="safety_identifier",
                code="user_conflict",
            )
        user_id, first = named, first or given
    return user_id


def _query_names(request: HttpRequest, query: CallerQuery) -> list[GivenName]:
    """Return the names in the query; raises `Invalid` for unknown parameters."""
    # Most requests have no query, and parsing an empty one costs 5 µs.
    if not request.META.get("QUERY_STRING"):
        return []
    fields = type(query).model_fields.items()
    maps = {name for name, field in fields if get_origin(field.annotation) is dict}
    allowed = {field.alias or name for name, field in fields} - maps
    refuse_unknown(request, allowed, maps)
    names = request.GET.getlist(USER_PARAMETER)
    return [GivenName(name, f"query.{USER_PARAMETER}") for name in names]


def read_map(query: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the values of a map in a query: `name[key]=value`."""
    start = f"{name}["
    return {
        parameter.removeprefix(start).removesuffix("]"): value
        for parameter, value in query.items()
        if parameter.startswith(start)
    }


def refuse_unknown(
    request: HttpRequest, allowed: Collection[str], maps: Collection[str] = ()
) -> None:
    """Raise `Invalid` for an unknown query parameter, which would be ignored.

    `maps` are the names of maps, as in `name[key]=value`.
    """
    try:
        parameters = request.GET
    except TooManyFieldsSent as exc:
        raise TooManyParameters from exc
    for name in parameters:
        start, bracket, _ = name.partition("[")
        if name not in allowed and not (bracket and start in maps):
            quoted = escape_and_truncate(name)
            raise Invalid(
                f"Unrecognized query parameter: '{quoted}'; known parameters: "
                + ", ".join(sorted([*allowed, *(f"{each}[key]" for each in maps)])),
                param=quoted,
                code="unknown_parameter",
            )


def _body_names(body: UserBody) -> Iterable[GivenName]:
    """Return the names in a body."""
    if body.safety_identifier is not None:
        yield GivenName(body.safety_identifier, "safety_identifier")
    if body.user is not None:
        yield GivenName(body.user, "user")


def header_names(request: HttpRequest, config: Config) -> list[GivenName]:
    """Return the names in the headers: two if one is sent twice."""
    return header_values(request, USER_HEADER, config.get(USERS).headers.user)


def header_values(request: HttpRequest, *headers: str | None) -> list[GivenName]:
    """Return the values of headers, by the headers' names; each may be repeated."""
    values: list[GivenName] = []
    for header in headers:
        if header and _meta_key(header) in request.META:
            values += _repeated_values(request, header)
    return values


@cache
def _meta_key(header: str) -> str:
    """Return the key of a header in `request.META`."""
    return f"HTTP_{header.upper().replace('-', '_')}"


def _repeated_values(request: HttpRequest, header: str) -> Iterable[GivenName]:
    # Django joins the values of a repeated header, which would be a third name.
    wanted = header.lower().encode()
    for name, value in cast(ASGIRequest, request).scope["headers"]:
        if name == wanted:
            yield GivenName(_decode(value), header, is_header=True)


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
