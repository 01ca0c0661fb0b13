"""Who sends a request, as far as a credential says."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.http import HttpRequest

Budget = Literal["unlimited", "total", "monthly"]
Scheme = Literal["basic", "oidc", "tokens"]

CALLER_ATTRIBUTE = "_coulisse_caller"
"""Of a request that was authenticated: its caller."""


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """An API token that was found to be valid."""

    id: uuid.UUID
    label: str
    principal: str
    """The user its requests belong to."""
    budget: Budget = "unlimited"
    limit_micro_usd: int | None = None
    """None where the budget is unlimited."""
    agents: frozenset[str] | None = None
    """The agents it may call; None is all."""
    expires_at: datetime | None = None
    version: int = 1
    """Counts its changes, so what is remembered of it is known to be old."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request."""

    name: str = ""
    """Whose credential it is, for records; "" where none is asked for."""
    principal: str | None = None
    """The user every request of theirs belongs to; None lets a request say."""
    scheme: Scheme | None = None
    """How their credential was checked; None where none is asked for."""
    token: VerifiedToken | None = None
    is_cached: bool = False
    """Whether the token was found in this process's memory alone: who lets it do
    something asks the database, too."""

    @property
    def token_id(self) -> uuid.UUID | None:
        return None if self.token is None else self.token.id

    @property
    def agents(self) -> Collection[str] | None:
        """The agents they may call; None is all."""
        return None if self.token is None else self.token.agents

    def may_call(self, agent: str) -> bool:
        """Return whether they may call an agent of this name."""
        return self.agents is None or agent in self.agents


def from_token(token: VerifiedToken, *, is_remembered: bool = False) -> Caller:
    """Return who sends a request with an API token."""
    return Caller(
        *(token.label, token.principal, "tokens", token), is_cached=is_remembered
    )


ANONYMOUS = Caller()
"""Anyone, where no credential is asked for."""


def caller_of(request: HttpRequest) -> Caller:
    """Return who sends a request that was authenticated."""
    caller: Caller = getattr(request, CALLER_ATTRIBUTE)
    return caller
