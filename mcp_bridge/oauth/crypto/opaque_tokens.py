"""Opaque tokens that only this server can make and read.

They pass through browsers and chats: third parties can neither read nor change them,
and a token is valid for one purpose only.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mcp_bridge.oauth.errors import LinkExpired, LinkInvalid

NONCE_BYTES = 12
MAX_CHARACTERS = 4096


class OpaqueTokens:
    """Makes and reads tokens, with a key of its own for each purpose."""

    def __init__(self, key: bytes) -> None:
        self._ciphers = {
            purpose: AESGCM(_derive_key(key, purpose)) for purpose in ("link", "state")
        }

    def write(
        self, purpose: str, content: Mapping[str, Any], *, expires_at: datetime
    ) -> str:
        """Return a token with this content."""
        body = orjson.dumps({**content, "exp": int(expires_at.timestamp())})
        nonce = os.urandom(NONCE_BYTES)
        ciphertext = nonce + self._ciphers[purpose].encrypt(
            nonce, body, purpose.encode()
        )
        return _encode(ciphertext)

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
            body = self._ciphers[purpose].decrypt(
                ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:], purpose.encode()
            )
        except (InvalidTag, UnicodeEncodeError, ValueError, binascii.Error) as exc:
            raise LinkInvalid from exc
        content: dict[str, Any] = orjson.loads(body)
        if content.pop("exp") <= now.timestamp():
            raise LinkExpired
        return content


def _encode(ciphertext: bytes) -> str:
    return base64.urlsafe_b64encode(ciphertext).decode().rstrip("=")


def _derive_key(key: bytes, purpose: str) -> bytes:
    info = b"coulisse mcp sign-in: " + purpose.encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(key)
