"""Verification of an identity provider's signed tokens.

Sources: OpenID Connect Core 1.0, RFC 7519, and RFC 8725 for known attacks.
"""

import asyncio
import hashlib
import time
from functools import lru_cache
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from access.authentication.oidc_provider import SUPPORTED_ALGORITHMS, IdentityProvider
from access.authentication.schemes import OidcConfig
from access.errors import CredentialRefused
from access.users.identity import MAX_LENGTH

MAX_TOKEN_LENGTH = 16 * 1024
"""Characters; a longer token is not parsed."""

LEEWAY_SECONDS = 30
"""The tolerated clock difference of two machines."""

MAX_CACHED = 4096
CACHE_SECONDS = 60.0


@lru_cache(maxsize=16)
def get_provider(issuer_url: str) -> IdentityProvider:
    """Return the provider of an issuer; both scopes may share it."""
    return IdentityProvider(issuer_url)


class TokenVerifier:
    """Verifies the tokens of one provider for this server."""

    def __init__(self, oidc: OidcConfig) -> None:
        self.oidc = oidc
        self.provider = get_provider(oidc.issuer_url)
        self._subjects: dict[bytes, tuple[str, float]] = {}
        """Cached subjects by token digest, with their expiry."""

    async def verify_bearer_token(self, token: str) -> str:
        """Return the `sub` of a bearer token.

        An unknown key causes a request to the provider. Raises `CredentialRefused`, and
        `IdentityProviderDown` if the token cannot be checked.
        """
        digest = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        cached = self._subjects.get(digest)
        if cached is not None and cached[1] > time.time():
            return cached[0]
        kid, algorithm = _decode_header(token)
        if self.provider.needs_refresh(kid, algorithm):
            await asyncio.wrap_future(self.provider.refresh())
        self.provider.refresh_if_old()
        claims = self._decode_claims(token, kid, algorithm, self.oidc.audiences)
        subject = _require_subject(claims)
        while len(self._subjects) >= MAX_CACHED:
            self._subjects.pop(next(iter(self._subjects)), None)
        # PyJWT reads a text of digits as a number.
        expires_at = int(claims["exp"]) + LEEWAY_SECONDS
        cached_until = min(expires_at, time.time() + CACHE_SECONDS)
        self._subjects[digest] = subject, cached_until
        return subject

    def verify_id_token(self, id_token: str, *, nonce: str | None) -> dict[str, Any]:
        """Return the claims of an ID token after a login.

        Call it from a thread: it may request the provider's keys. Raises as
        `verify_bearer_token` does.
        """
        kid, algorithm = _decode_header(id_token)
        if self.provider.needs_refresh(kid, algorithm):
            self.provider.refresh().result()
        claims = self._decode_claims(id_token, kid, algorithm, (self.oidc.client_id,))
        if nonce is None or claims.get("nonce") != nonce:
            raise _refusal("it belongs to another login")
        audience = claims["aud"]
        several = isinstance(audience, list) and len(audience) > 1
        if several and claims.get("azp") != self.oidc.client_id:
            raise _refusal("it was issued for another client")
        return {**claims, "sub": _require_subject(claims)}

    def _decode_claims(
        self, token: str, kid: str | None, algorithm: str, audiences: tuple[str, ...]
    ) -> dict[str, Any]:
        for key in self.provider.keys(kid, algorithm):
            try:
                return jwt.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    audience=audiences,
                    issuer=self.provider.require_metadata().issuer,
                    leeway=LEEWAY_SECONDS,
                    options={"require": ["aud", "exp", "iss", "sub"]},
                )
            except jwt.InvalidSignatureError:
                continue
            except PyJWTError as exc:
                raise _refusal(str(exc)) from exc
        raise _refusal("it is not signed with a key of the identity provider")


def _decode_header(token: str) -> tuple[str | None, str]:
    """Return the key name of a token, if any, and its algorithm."""
    if len(token) > MAX_TOKEN_LENGTH:
        raise _refusal("it is too long")
    try:
        header = jwt.get_unverified_header(token)
    except PyJWTError as exc:
        raise _refusal("it is not a JSON Web Token") from exc
    kid, algorithm = header.get("kid"), header.get("alg")
    # Never trust the token's own algorithm: `none`, or a shared secret.
    if not isinstance(algorithm, str) or algorithm not in SUPPORTED_ALGORITHMS:
        raise _refusal("its algorithm is not allowed")
    return (kid if isinstance(kid, str) else None), algorithm


def _require_subject(claims: dict[str, Any]) -> str:
    subject = claims["sub"]
    name = subject.strip() if isinstance(subject, str) else ""
    if not name or len(name) > MAX_LENGTH:
        raise _refusal("its subject is not a valid name")
    return name


def _refusal(reason: str) -> CredentialRefused:
    return CredentialRefused(
        f"The identity provider's token is not valid: {reason}",
        challenge='Bearer error="invalid_token"',
    )
