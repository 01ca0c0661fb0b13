"""The values of a sign-in: providers and their tokens."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import BaseModel, ConfigDict

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
class NewTokens:
    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    scopes: str | None
    """None if the provider sends none: the requested scopes apply."""
    expires_at: datetime | None
