"""Audit events: actor, action, target and source of a change."""

import os
import pwd
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from access.users.caller import Caller, VerifiedToken
from core.ids import UserId
from core.runtime import request_ids


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of a change, and where the request comes from."""

    name: str
    """`user:ID`, `token:LABEL (ID)`, `basic:NAME`, `oidc:SUB`, `command line: NAME`."""
    origin: str = ""
    """The client's address, or the machine a command runs on."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """A change that is made, or about to be made."""

    action: str
    """A noun and a verb: `token.create`."""
    actor: Actor
    target: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    """More details, as JSON types; never a secret or a user's text."""
    request_id: str = field(default_factory=request_ids.current.get)
    """Read when the event is created: the thread that stores it has no request."""


def terminal_actor() -> Actor:
    """Return the actor of a command: the system account, not an environment value."""
    account_id = os.getuid()
    try:
        name = pwd.getpwuid(account_id).pw_name
    except KeyError:  # Containers may run as a user id without an account.
        name = str(account_id)
    return Actor(f"command line: {name}", f"command line on {socket.gethostname()}")


def request_actor(caller: Caller, user_id: UserId, address: str) -> Actor:
    """Return the actor of a request, by its credential.

    If no credential is required, it is the user that the request names.
    """
    if caller.token is not None:
        return Actor(_token_name(caller.token), address)
    if caller.scheme is not None:
        return Actor(f"{caller.scheme}:{caller.name}", address)
    return Actor(f"user:{user_id}", address)


def _token_name(token: VerifiedToken) -> str:
    return f"token:{token.label} ({token.id.hex[:8]})"
