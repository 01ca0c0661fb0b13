"""The caller of a request, as determined by its credential."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from django.http import HttpRequest

from core.history import History

Budget = Literal["unlimited", "total", "monthly"]
ClientUsers = Literal["refuse", "ignore", "separate"]
"""What a token does with the users that its requests name: other users than its
principal are refused, all names are ignored, or each name is a user of the token."""
Scheme = Literal["basic", "oidc", "tokens"]

CLIENT_USERS = get_args(ClientUsers)
USER_SEPARATOR = "/"
"""Between a token's principal and the names of its separate users."""

CALLER_ATTRIBUTE = "_coulisse_caller"
"""The request attribute that holds the authenticated caller."""


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """An API token that was valid when it was checked."""

    id: uuid.UUID
    label: str
    principal: str
    """The user that its requests belong to."""
    budget: Budget = "unlimited"
    limit_micro_usd: int | None = None
    """None for an unlimited budget."""
    agents: frozenset[str] | None = None
    """The agents that it may call; None means all."""
    expires_at: datetime | None = None
    history: History | None = None
    """How its requests' messages are read; None leaves it to the agent."""
    client_users: ClientUsers = "refuse"
    version: int = 1
    """Incremented with each change, so that stale copies are detected."""


@dataclass(frozen=True, slots=True)
class Caller:
    name: str = ""
    """The owner of the credential, for records; "" without authentication."""
    principal: str | None = None
    """The user of all its requests, or the prefix of its users' names if it has
    separate ones; None lets each request name one."""
    scheme: Scheme | None = None
    """The authentication scheme; None without authentication."""
    token: VerifiedToken | None = None
    is_cached: bool = False
    """Whether the token comes from this process's cache only: operations must also
    validate it in the database."""

    @property
    def token_id(self) -> uuid.UUID | None:
        return None if self.token is None else self.token.id

    @property
    def history(self) -> History | None:
        """How its requests' messages are read; None leaves it to the agent."""
        return None if self.token is None else self.token.history

    @property
    def client_users(self) -> ClientUsers:
        return "refuse" if self.token is None else self.token.client_users

    @property
    def is_bound(self) -> bool:
        """Whether the credential alone determines the user of a request."""
        return self.principal is not None and self.client_users != "separate"

    @property
    def agents(self) -> Collection[str] | None:
        """The agents that the caller may call; None means all."""
        return None if self.token is None else self.token.agents

    def may_call(self, agent: str) -> bool:
        return self.agents is None or agent in self.agents


def from_token(token: VerifiedToken, *, is_cached: bool = False) -> Caller:
    return Caller(token.label, token.principal, "tokens", token, is_cached)


ANONYMOUS = Caller()
"""Any caller, without authentication."""


def caller_of(request: HttpRequest) -> Caller:
    """Return the caller of an authenticated request."""
    caller: Caller = getattr(request, CALLER_ATTRIBUTE)
    return caller
