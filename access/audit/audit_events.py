"""What somebody did, as the audit will tell it: who, what, to what, from where."""

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
    """Who does something, and from where."""

    name: str
    """`user:ID`, `token:LABEL (ID)`, `basic:NAME`, `oidc:SUB`, `command line: NAME`."""
    origin: str = ""
    """The client's address, or the machine a command runs on."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """Something that is done, or about to be."""

    action: str
    """A noun and a verb: `token.create`."""
    actor: Actor
    target: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    """More about it that JSON can say; never a secret, and no text of a user's."""
    request_id: str = field(default_factory=request_ids.current.get)
    """Taken where it is made: the thread that writes it down knows no request."""


def terminal_actor() -> Actor:
    """Return who runs a command: the account, whatever the environment says of it."""
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # as containers run it
        name = str(number)
    return Actor(f"command line: {name}", f"command line on {socket.gethostname()}")


def request_actor(caller: Caller, user_id: UserId, address: str) -> Actor:
    """Return who sends a request: by their credential.

    Where no credential is asked for it is whom the request says it is for.
    """
    if caller.token is not None:
        return Actor(_token_name(caller.token), address)
    if caller.scheme is not None:
        return Actor(f"{caller.scheme}:{caller.name}", address)
    return Actor(f"user:{user_id}", address)


def _token_name(token: VerifiedToken) -> str:
    """Return how records name a token."""
    return f"token:{token.label} ({token.id.hex[:8]})"
