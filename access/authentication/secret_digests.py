"""Digests of secrets in the YAML that are only compared, never used in the clear.

The key is random and lives as long as the process. Within a process the same secret has
the same digest, so two loads of one file are equal; precomputed tables are useless, and
the memory holds no secret.
"""

import hashlib
import hmac
import os
from dataclasses import dataclass, field

from core.text import entropy

_KEY = os.urandom(32)

MIN_PASSWORD_CHARS = 8
"""Shorter passwords are refused."""
SAFE_PASSWORD_CHARS = 12
"""Shorter passwords cause a warning."""


@dataclass(frozen=True, slots=True)
class SecretDigest:
    """The digest of a secret, and the facts that the checks of its strength need."""

    value: bytes = field(repr=False)
    is_short: bool = False
    """Too short to be accepted."""
    is_weak: bool = False
    """Easy to guess; accepted with a warning."""

    def matches(self, text: str) -> bool:
        """Return whether a text is the secret, in constant time."""
        return hmac.compare_digest(digest(text), self.value)


def digest(text: str) -> bytes:
    """Return the digest of any text, lone surrogates included."""
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, key=_KEY, digest_size=32).digest()


def digest_password(text: str) -> SecretDigest:
    """Return the digest of a password that a person types."""
    return SecretDigest(
        digest(text),
        is_short=len(text) < MIN_PASSWORD_CHARS,
        is_weak=len(text) < SAFE_PASSWORD_CHARS,
    )


def digest_token(text: str) -> SecretDigest:
    """Return the digest of a token that a program sends."""
    return SecretDigest(digest(text), is_weak=not entropy.is_strong(text))
