"""The user and the thread in `metadata.user_id`.

Coding agents always write the machine or the account, and the session, into this field.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from django.http import HttpRequest

from access.users import request_user
from access.users.caller import caller_of
from config import live
from core.ids import UserId
from gateway.anthropic.schemas import MESSAGES_QUERY, CountRequest

USER_KEY = "user_id"
MAX_SESSION_LENGTH = 64


@dataclass(frozen=True, slots=True)
class NamedUser:
    """The user in the body of a request."""

    safety_identifier: str | None
    session: str = ""
    """The session of a coding agent."""
    user: None = None


def identify_user(request: HttpRequest, body: CountRequest) -> UserId:
    """Return the user of a request; raises as `request_user.identify_user` does.

    The machine of a coding agent is its user unless a header or a credential names one.
    """
    named = read_user(body)
    if named.session and (
        caller_of(request).is_bound
        or request_user.header_names(request, live.current())
    ):
        named = NamedUser(None, named.session)
    return request_user.identify_user(request, MESSAGES_QUERY, named)


def read_user(body: CountRequest) -> NamedUser:
    """Return the user that the metadata names."""
    name = (body.metadata or {}).get(USER_KEY)
    if name is None:
        return NamedUser(None)
    return _read_text(name) or _read_object(name) or NamedUser(name)


def _read_text(name: str) -> NamedUser | None:
    """Return the user in `user_<machine>_account_<account>_session_<session>`."""
    before, _, session = name.rpartition("_session_")
    user = before.partition("_account_")[0]
    if not user.startswith("user_") or not 0 < len(session) <= MAX_SESSION_LENGTH:
        return None
    return NamedUser(user, session)


def _read_object(name: str) -> NamedUser | None:
    """Return the user in an id that is a JSON object."""
    try:
        value = orjson.loads(name) if name.startswith("{") else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict):
        return None
    user = value.get("account_uuid") or value.get("device_id")
    session = value.get("session_id")
    if isinstance(user, str) and isinstance(session, str) and session:
        return NamedUser(user, session)
    return None


def option_metadata(body: CountRequest) -> Mapping[str, str]:
    """Return the metadata without the user."""
    return {k: v for k, v in (body.metadata or {}).items() if k != USER_KEY}
