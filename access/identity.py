"""Whose request this is."""

import re
import uuid
from collections.abc import Iterable
from functools import lru_cache

from access.caller import Caller
from access.config import DEFAULT_USER_ID, SHARED_USER_ID, USERS
from access.errors import AgentRefused, IdentityRefused, UserInvalid, UserRequired
from config.sections import Config
from core.ids import UserId

NAMESPACE = uuid.UUID("5d2e6b62-5f0a-5c43-9f7e-0c8f2a1c7d11")
"""Never change it: every user's memory hangs on the ids derived from it."""

MAX_LENGTH = 512

CANONICAL_UUID = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}", re.I | re.A
)


def resolve(config: Config, caller: Caller, *identifiers: str | None) -> UserId:
    """Return the user of a request that names them by the first identifier given.

    Where the caller's credential stands for a user it is that one, and every name that
    is given must be theirs. Else falls back to `default_user_id` (or `users: shared`).
    Raises `IdentityRefused` for another's name, `UserRequired` when nobody is named and
    there is no fallback, `UserInvalid` for a blank or oversized name. Source: "User
    identification" of the reference.
    """
    if caller.principal is not None:
        return _bound(caller.principal, identifiers)
    for identifier in identifiers:
        if identifier is not None:
            return derive(checked(identifier))
    fallback = config.get(DEFAULT_USER_ID)
    if fallback is None and config.get(USERS) == "shared":
        fallback = SHARED_USER_ID
    if fallback is None:
        raise UserRequired
    return derive(fallback)


def check_agent(caller: Caller, agent: str) -> None:
    """Raise `AgentRefused` for an agent that the caller's token may not call."""
    if not caller.may_call(agent):
        raise AgentRefused(f"This API token may not call the agent '{agent}'")


def _bound(principal: str, identifiers: Iterable[str | None]) -> UserId:
    user_id = derive(principal)
    for identifier in identifiers:
        if identifier is not None and derive(checked(identifier)) != user_id:
            raise IdentityRefused
    return user_id


def checked(identifier: str) -> str:
    """Return the name without blanks around it; raises `UserInvalid`."""
    name = identifier.strip()
    if not name:
        raise UserInvalid(
            "safety_identifier is empty: leave it out or name the user",
            param="safety_identifier",
        )
    if len(name) > MAX_LENGTH:
        raise UserInvalid(
            f"safety_identifier is {len(name)} characters long, at most "
            f"{MAX_LENGTH} are taken",
            param="safety_identifier",
        )
    return name


@lru_cache(maxsize=10_000)
def derive(name: str) -> UserId:
    """Return the id of a user: the name if it is a UUID, else a v5 UUID of it."""
    # Python's own reading is lax: it takes hyphens and underscores anywhere, so
    # different names would be one user.
    if CANONICAL_UUID.fullmatch(name):
        return UserId(uuid.UUID(name))
    return UserId(uuid.uuid5(NAMESPACE, name))
