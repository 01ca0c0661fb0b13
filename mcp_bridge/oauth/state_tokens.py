"""Links, and the `state` of sign-ins, as tokens: user, server, expiry."""

import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from typing import ClassVar, Self

from pydantic import BaseModel, Field

from core.ids import UserId
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.errors import LinkInvalid

LIFETIME = timedelta(minutes=10)
MEMORY = 2 * LIFETIME
"""How long a used link is stored, longer than it is valid."""


class SignInLink(BaseModel, frozen=True):
    """A link for one user to one server's sign-in."""

    purpose: ClassVar[str] = "link"
    server: str
    user_id: UserId
    nonce: str = Field(default_factory=lambda: secrets.token_hex(16))

    def write(self, *, now: datetime) -> str:
        content, expires_at = self.model_dump(), now + LIFETIME
        opaque_tokens = secret_keys.load_keys().opaque_tokens
        return opaque_tokens.write(self.purpose, content, expires_at=expires_at)

    @classmethod
    def read(cls, server: str, token: str, *, now: datetime) -> Self:
        """Return the content; raises `LinkInvalid` and `LinkExpired`."""
        opaque_tokens = secret_keys.load_keys().opaque_tokens
        content = opaque_tokens.read(cls.purpose, token, now=now)
        if content["server"] != server:
            raise LinkInvalid
        return cls.model_validate(content)


class SignInState(SignInLink, frozen=True):
    """The OAuth `state` of a sign-in."""

    purpose: ClassVar[str] = "state"
    client_row: int | None
    resource: str
    """A digest of the server's URL at the start of the sign-in."""
    verifier: str
    """The PKCE verifier."""
    browser: str
    """A digest of the browser's cookie; empty without a browser."""


def short_digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
