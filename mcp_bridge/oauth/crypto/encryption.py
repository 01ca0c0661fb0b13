"""Encryption of what is stored of users' sign-ins: AES-256-GCM."""

import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


class DecryptionFailed(Exception):
    """Encrypted with another key, for another place, or altered."""


class TokenCipher:
    """Encrypts texts with one key; each can be read in its own place only."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self.key_id = hashlib.sha256(b"coulisse vault key id\0" + key).hexdigest()[:16]
        """Tells one key from another, and nothing about either."""

    def encrypt(self, text: str, *place: str) -> bytes:
        """Return a text encrypted, its nonce before it."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(
            nonce, text.encode(), _associated_data(place)
        )

    def decrypt(self, box: bytes, *place: str) -> str:
        """Return the text; raises `Unreadable`."""
        box = bytes(box)
        try:
            text = self._cipher.decrypt(
                box[:NONCE_BYTES], box[NONCE_BYTES:], _associated_data(place)
            )
        # A box that is too short is a ValueError.
        except (InvalidTag, ValueError) as exc:
            raise DecryptionFailed from exc
        return text.decode()


def _associated_data(place: tuple[str, ...]) -> bytes:
    # Lengths, so that no two places are written alike whatever is in their names.
    return b":".join(b"%d:%s" % (len(raw), raw) for raw in (p.encode() for p in place))
