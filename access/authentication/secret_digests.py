"""Secrets of the YAML that are only compared: stored as digests, never in the clear.

The key is random and lives as long as the process. Within a process the same secret
has the same digest, so two readings of one file are equal; nothing can be looked up in
a table of digests, and nothing in memory says what a secret was.
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
"""Shorter passwords are warned of."""


@dataclass(frozen=True, slots=True)
class SecretDigest:
    """The digest of a secret, and what the checks need to know of its strength."""

    value: bytes = field(repr=False)
    is_short: bool = False
    """Too short to be accepted."""
    is_weak: bool = False
    """Can be guessed; accepted with a warning."""

    def matches(self, text: str) -> bool:
        """Return whether a text is the secret, in constant time."""
        return hmac.compare_digest(digest(text), self.value)


def digest(text: str) -> bytes:
    """Return the digest of any text, lone surrogates included."""
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, key=_KEY, digest_size=32).digest()


def digest_password(text: str) -> SecretDigest:
    """Return the digest of a password a person types."""
    return SecretDigest(
        digest(text),
        is_short=len(text) < MIN_PASSWORD_CHARS,
        is_weak=len(text) < SAFE_PASSWORD_CHARS,
    )


def digest_token(text: str) -> SecretDigest:
    """Return the digest of a token a program sends."""
    return SecretDigest(digest(text), is_weak=not entropy.is_strong(text))
