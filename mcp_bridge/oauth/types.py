"""The types of a sign-in: servers, clients and tokens."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

CallDatabase = Callable[..., Awaitable[Any]]
"""Calls a function that touches tables: `run` or `run_to_end` of the executor."""

AuditHook = Callable[[], None]
"""Called when a sign-in begins or ends, within that transaction."""


def no_audit() -> None:
    """Record nothing."""


class AuthorizationServer(BaseModel):
    """An authorization server and its features."""

    model_config = ConfigDict(frozen=True)

    issuer: str = ""
    """Empty without discovery, for a client in the YAML."""
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    auth_methods: tuple[str, ...] = ("client_secret_basic",)
    """The client authentication methods of the token endpoint."""
    scopes: tuple[str, ...] = ()
    """The default scopes if the YAML has none."""
    resource: str | None = None
    """The resource of the tokens (RFC 8707)."""
    has_issuer_parameter: bool = False
    """Whether responses include `iss` (RFC 9207)."""


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """This server's client at a provider."""

    server: str
    provider: AuthorizationServer
    client_id: str
    client_secret: str | None = field(repr=False)
    auth_method: str
    redirect_uri: str
    row: int | None = None
    """Its row id; None for a client in the YAML."""
    discovered_at: datetime | None = None
    verified_at: datetime | None = None
    secret_expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredClient:
    """A stored registration, its secret encrypted."""

    client: RegisteredClient
    key_id: str
    ciphertext: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class NewTokens:
    """Tokens from a provider."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    scopes: str | None
    """None if the provider sends none: the requested scopes apply."""
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
    """A user's stored sign-in."""

    row: int
    version: int
    server: str
    resource: str
    client_row: int | None
    encrypted: EncryptedTokens
    refresh_lease_until: datetime | None
