"""The parties to a sign-in, and what passes between them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

CallDatabase = Callable[..., Awaitable[Any]]
"""Calls a function that touches tables: `run` or `run_to_end` of the executor."""

AuditHook = Callable[[], None]
"""Called where a sign-in begins or ends, within the transaction of that."""


def no_audit() -> None:
    """Note nothing."""


class AuthorizationServer(BaseModel):
    """Where users sign in, and what that place supports."""

    model_config = ConfigDict(frozen=True)

    issuer: str = ""
    """Empty where nothing was discovered, for an app in the YAML."""
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    auth_methods: tuple[str, ...] = ("client_secret_basic",)
    """How the token endpoint lets apps say who they are."""
    scopes: tuple[str, ...] = ()
    """What to ask for when the YAML does not say."""
    resource: str | None = None
    """What tokens are to be good for (RFC 8707)."""
    has_issuer_parameter: bool = False
    """Whether users come back with `iss` (RFC 9207)."""


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """This server as a provider knows it."""

    server: str
    provider: AuthorizationServer
    client_id: str
    client_secret: str | None = field(repr=False)
    auth_method: str
    redirect_uri: str
    row: int | None = None
    """Where it is stored; None for an app in the YAML."""
    discovered_at: datetime | None = None
    verified_at: datetime | None = None
    secret_expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredClient:
    """A registration as the table has it, its secret encrypted."""

    app: RegisteredClient
    key_id: str
    box: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class NewTokens:
    """Tokens as a provider gave them."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    scopes: str | None
    """None when the provider does not say: what was asked for."""
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class EncryptedTokens:
    """Tokens as they are stored."""

    key_id: str
    access_token: bytes = field(repr=False)
    refresh_token: bytes | None = field(repr=False)
    scopes: str | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredTokens:
    """A user's sign-in as the table has it."""

    row: int
    version: int
    server: str
    resource: str
    client_row: int | None
    boxes: EncryptedTokens
    refresh_lease_until: datetime | None
