"""The secrets of API tokens. Source: "API tokens" of the reference."""

import hashlib
import secrets

PREFIX = "sk-coulisse-"


def new_secret() -> str:
    """Return a secret of 32 random bytes, which need no salt and no slow hash."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """Return the SHA-256 that the database stores for a secret."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
