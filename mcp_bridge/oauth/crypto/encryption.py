"""Encryption of stored sign-ins: AES-256-GCM."""

import hashlib
import os

NONCE_BYTES = 12


class DecryptionFailed(Exception):
    """The text has another key or context, or was altered."""


class TokenCipher:
    """Encrypts texts with one key; each is bound to its own context."""

    def __init__(self, key: bytes) -> None:
        # Here, because processes that decrypt nothing, such as beat, save 6 MB.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)
        self.key_id = hashlib.sha256(b"coulisse vault key id\0" + key).hexdigest()[:16]
        """Identifies the key without revealing it."""

    def encrypt(self, text: str, *context: str) -> bytes:
        """Return the nonce followed by the encrypted text."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(
            nonce, text.encode(), _associated_data(context)
        )

    def decrypt(self, ciphertext: bytes, *context: str) -> str:
        """Return the text; raises `DecryptionFailed`."""
        from cryptography.exceptions import InvalidTag

        ciphertext = bytes(ciphertext)
        try:
            text = self._cipher.decrypt(
                ciphertext[:NONCE_BYTES],
                ciphertext[NONCE_BYTES:],
                _associated_data(context),
            )
        # Too short an input raises ValueError.
        except (InvalidTag, ValueError) as exc:
            raise DecryptionFailed from exc
        return text.decode()


def _associated_data(context: tuple[str, ...]) -> bytes:
    # The lengths make the encoding of contexts unambiguous.
    return b":".join(
        b"%d:%s" % (len(raw), raw) for raw in (p.encode() for p in context)
    )
