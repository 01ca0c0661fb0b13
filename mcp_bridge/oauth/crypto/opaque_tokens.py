"""Opaque tokens that only this server can make and read.

They pass through browsers and chats: third parties can neither read nor change them,
and a token is valid for one purpose only.
"""

import base64
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from mcp_bridge.oauth.crypto.encryption import DecryptionFailed, TokenCipher
from mcp_bridge.oauth.errors import LinkExpired, LinkInvalid

MAX_CHARACTERS = 4096


class OpaqueTokens:
    """Makes and reads tokens, with a key of its own for each purpose."""

    def __init__(self, key: bytes) -> None:
        self._ciphers = {
            purpose: TokenCipher(_derive_key(key, purpose))
            for purpose in ("link", "state")
        }

    def write(
        self, purpose: str, content: Mapping[str, Any], *, expires_at: datetime
    ) -> str:
        body = orjson.dumps({**content, "exp": int(expires_at.timestamp())})
        return _encode(self._ciphers[purpose].encrypt(body.decode(), purpose))

    def read(self, purpose: str, token: str, *, now: datetime) -> dict[str, Any]:
        """Return the content; raises `LinkInvalid` and `LinkExpired`."""
        if len(token) > MAX_CHARACTERS:
            raise LinkInvalid
        try:
            padded = token.encode("ascii") + b"=" * (-len(token) % 4)
            ciphertext = base64.b64decode(padded, altchars=b"-_", validate=True)
            # Some bytes have several Base64 spellings; a token has one.
            if _encode(ciphertext) != token:
                raise LinkInvalid
            body = self._ciphers[purpose].decrypt(ciphertext, purpose)
        except (DecryptionFailed, ValueError) as exc:
            raise LinkInvalid from exc
        content: dict[str, Any] = orjson.loads(body)
        if content.pop("exp") <= now.timestamp():
            raise LinkExpired
        return content


def _encode(ciphertext: bytes) -> str:
    return base64.urlsafe_b64encode(ciphertext).decode().rstrip("=")


def _derive_key(key: bytes, purpose: str) -> bytes:
    return hmac.digest(key, b"coulisse mcp sign-in: " + purpose.encode(), "sha256")
