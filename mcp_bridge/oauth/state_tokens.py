"""Links, and the `state` of sign-ins, as tokens: user, server, expiry.

They pass through browsers and chats: third parties can neither read nor change them,
and a token is valid for one purpose only.
"""

import base64
import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from typing import ClassVar, Self

import orjson
from pydantic import BaseModel, Field

from core.ids import UserId
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.crypto.encryption import DecryptionFailed
from mcp_bridge.oauth.errors import LinkExpired, LinkInvalid

LIFETIME = timedelta(minutes=10)
MEMORY = 2 * LIFETIME
"""How long a used link is stored, longer than it is valid."""
MAX_CHARACTERS = 4096


class SignInLink(BaseModel, frozen=True):
    """A link for one user to one server's sign-in."""

    purpose: ClassVar[str] = "link"
    server: str
    user_id: UserId
    nonce: str = Field(default_factory=lambda: secrets.token_hex(16))

    def write(self, *, now: datetime) -> str:
        content = {**self.model_dump(), "exp": int((now + LIFETIME).timestamp())}
        body = orjson.dumps(content).decode()
        return _encode(secret_keys.load_keys().link_cipher.encrypt(body, self.purpose))

    @classmethod
    def read(cls, server: str, token: str, *, now: datetime) -> Self:
        """Return the content; raises `LinkInvalid` and `LinkExpired`."""
        if len(token) > MAX_CHARACTERS:
            raise LinkInvalid
        cipher = secret_keys.load_keys().link_cipher
        try:
            padded = token.encode("ascii") + b"=" * (-len(token) % 4)
            ciphertext = base64.b64decode(padded, altchars=b"-_", validate=True)
            content = orjson.loads(cipher.decrypt(ciphertext, cls.purpose))
        except (DecryptionFailed, ValueError) as exc:
            raise LinkInvalid from exc
        # Some bytes have several Base64 spellings; a token has one.
        if _encode(ciphertext) != token:
            raise LinkInvalid
        if content.pop("exp") <= now.timestamp():
            raise LinkExpired
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


def _encode(ciphertext: bytes) -> str:
    return base64.urlsafe_b64encode(ciphertext).decode().rstrip("=")


def short_digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
