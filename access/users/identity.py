"""The user of a request.

Three kinds of text identify a user. A name from a client goes through `resolve_user`,
which respects `users.accept_uuids`. An operator's text (a token's principal, a limit,
an address of the studio, an argument of a command) goes through `derive_user_id`: there
a UUID is always an id. A known id is passed on as a `UserId`, never as text.
"""

import re
import uuid
from collections.abc import Iterable
from functools import lru_cache

from access.config import DEFAULT_USER_ID, SHARED_USER_ID, USERS
from access.errors import IdentityRefused, TokenUserRequired, UserInvalid, UserRequired
from access.users import user_namespace
from access.users.caller import USER_SEPARATOR, Caller
from config.sections import Config
from core.ids import UserId

MAX_LENGTH = 512

CANONICAL_UUID = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}", re.I | re.A
)


def resolve_user(config: Config, caller: Caller, *identifiers: str | None) -> UserId:
    """Return the user of a request, by the first identifier that is given.

    A credential that belongs to a user determines the user, and every given name must
    be that user's. A token with separate users prefixes names with its principal.
    Without a name, `default_user_id` (or `users: shared`) applies.
    Raises `IdentityRefused` for another user's name, `UserRequired` without a name and
    a fallback, `UserInvalid` for a blank or oversized name. Source: "User
    identification" of the reference.
    """
    if caller.principal is not None:
        if caller.client_users == "separate":
            return _separate_user(caller.principal, identifiers)
        return _bound_user(caller.principal, identifiers)
    for identifier in identifiers:
        if identifier is not None:
            return _configured_user(check_identifier(identifier), config)
    fallback = config.get(DEFAULT_USER_ID)
    if fallback is None and config.get(USERS).mode == "shared":
        fallback = SHARED_USER_ID
    if fallback is None:
        raise UserRequired
    return derive_user_id(fallback)


def user_of_thread(thread: str) -> UserId:
    """Return the user of a thread whose requests name no user (`users: per-thread`).

    No name that a client sends is the same user.
    """
    return _derive_from_name(_derive_from_name(user_namespace.current(), "\0"), thread)


def check_user(caller: Caller, user_id: UserId) -> None:
    """Raise `IdentityRefused` unless the caller's credential covers this user."""
    # `resolve_user` alone derives separate users, and an id does not show its prefix.
    if caller.principal is None or caller.client_users == "separate":
        return
    if derive_user_id(caller.principal) != user_id:
        raise IdentityRefused


def _bound_user(principal: str, identifiers: Iterable[str | None]) -> UserId:
    user_id = derive_user_id(principal)
    for identifier in identifiers:
        if (
            identifier is not None
            and derive_user_id(check_identifier(identifier)) != user_id
        ):
            raise IdentityRefused
    return user_id


def _separate_user(principal: str, identifiers: Iterable[str | None]) -> UserId:
    """Return the token's user with the first given name.

    Never a fallback: its users would share one memory without noticing.
    """
    for identifier in identifiers:
        if identifier is not None:
            name = check_identifier(identifier)
            return user_id_of_name(f"{principal}{USER_SEPARATOR}{name}")
    raise TokenUserRequired


def check_identifier(identifier: str) -> str:
    """Return the name without surrounding blanks; raises `UserInvalid`."""
    name = identifier.strip()
    if not name:
        raise UserInvalid(
            "safety_identifier is empty: leave it out or name the user",
            param="safety_identifier",
        )
    if len(name) > MAX_LENGTH:
        raise UserInvalid(
            f"safety_identifier has {len(name)} characters; the maximum is "
            f"{MAX_LENGTH}",
            param="safety_identifier",
        )
    return name


def _configured_user(name: str, config: Config) -> UserId:
    return (
        derive_user_id(name)
        if config.get(USERS).accept_uuids
        else user_id_of_name(name)
    )


def derive_user_id(text: str) -> UserId:
    """Return the user of an id or a name: a UUID is an id, any other text a name."""
    return _derive(user_namespace.current(), text)


def user_id_of_name(name: str) -> UserId:
    """Return the user of a name, even if it looks like an id."""
    return _derive_from_name(user_namespace.current(), name)


def possible_user_ids(text: str) -> set[UserId]:
    """Return the users that an operator may mean by a text; two for a UUID.

    Clients may have sent it as a name, if `users.accept_uuids` is false.
    """
    return {derive_user_id(text), user_id_of_name(text)}


@lru_cache(maxsize=10_000)
def _derive(namespace: uuid.UUID, text: str) -> UserId:
    # Python's own parser accepts hyphens and underscores anywhere, so different names
    # would be one user.
    if CANONICAL_UUID.fullmatch(text):
        return UserId(uuid.UUID(text))
    return UserId(uuid.uuid5(namespace, text))


@lru_cache(maxsize=10_000)
def _derive_from_name(namespace: uuid.UUID, name: str) -> UserId:
    return UserId(uuid.uuid5(namespace, name))
