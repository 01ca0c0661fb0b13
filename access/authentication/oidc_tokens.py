"""Who somebody is in the words of an identity provider: tokens it has signed.

Sources: OpenID Connect Core 1.0, RFC 7519, and RFC 8725 on what goes wrong with them.
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
"""Characters; a longer one is not read."""

LEEWAY_SECONDS = 30
"""How far the clocks of two machines may be apart."""

MAX_CACHED = 4096
CACHE_SECONDS = 60.0


@lru_cache(maxsize=16)
def get_provider(issuer_url: str) -> IdentityProvider:
    """Return the provider of that name; both scopes may have the same."""
    return IdentityProvider(issuer_url)


class TokenVerifier:
    """Reads the tokens of one provider that are meant for us."""

    def __init__(self, oidc: OidcConfig) -> None:
        self.oidc = oidc
        self.provider = get_provider(oidc.issuer_url)
        self._known: dict[bytes, tuple[str, float]] = {}
        """Subjects by the digests of tokens, and until when they are remembered."""

    async def verify_bearer_token(self, token: str) -> str:
        """Return whose bearer token this is, by the provider's `sub`.

        The provider is asked for its keys where this one's is not known. Raises
        `CredentialRefused`, and `IdentityProviderDown` where nobody can tell.
        """
        digest = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        known = self._known.get(digest)
        if known is not None and known[1] > time.time():
            return known[0]
        kid, algorithm = _decode_header(token)
        if self.provider.needs_refresh(kid, algorithm):
            await asyncio.wrap_future(self.provider.refresh())
        self.provider.refresh_if_old()
        claims = self._decode_claims(token, kid, algorithm, self.oidc.audiences)
        subject = _require_subject(claims)
        while len(self._known) >= MAX_CACHED:
            self._known.pop(next(iter(self._known)), None)
        # A text of digits is taken for a number by PyJWT.
        expires_at = int(claims["exp"]) + LEEWAY_SECONDS
        end = min(expires_at, time.time() + CACHE_SECONDS)
        self._known[digest] = subject, end
        return subject

    def verify_id_token(self, id_token: str, *, nonce: str | None) -> dict[str, Any]:
        """Return what an ID token says of who has just logged in.

        For threads: the provider may have to be asked. Raises as `subject` does.
        """
        kid, algorithm = _decode_header(id_token)
        if self.provider.needs_refresh(kid, algorithm):
            self.provider.refresh().result()
        claims = self._decode_claims(id_token, kid, algorithm, (self.oidc.client_id,))
        if nonce is None or claims.get("nonce") != nonce:
            raise _refusal("it answers another login")
        audience = claims["aud"]
        several = isinstance(audience, list) and len(audience) > 1
        if several and claims.get("azp") != self.oidc.client_id:
            raise _refusal("it is meant for another client")
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
        raise _refusal("it is signed with no key of the identity provider")


def _decode_header(token: str) -> tuple[str | None, str]:
    """Return the name of a token's key, if it has one, and its algorithm."""
    if len(token) > MAX_TOKEN_LENGTH:
        raise _refusal("it is too long")
    try:
        head = jwt.get_unverified_header(token)
    except PyJWTError as exc:
        raise _refusal("it is no JSON Web Token") from exc
    kid, algorithm = head.get("kid"), head.get("alg")
    # Never what the token asks for: `none`, or a secret that is everyone's.
    if not isinstance(algorithm, str) or algorithm not in SUPPORTED_ALGORITHMS:
        raise _refusal("its algorithm is not allowed")
    return (kid if isinstance(kid, str) else None), algorithm


def _require_subject(claims: dict[str, Any]) -> str:
    subject = claims["sub"]
    name = subject.strip() if isinstance(subject, str) else ""
    if not name or len(name) > MAX_LENGTH:
        raise _refusal("its subject is no name")
    return name


def _refusal(why: str) -> CredentialRefused:
    return CredentialRefused(
        f"The identity provider's token is not valid: {why}",
        challenge='Bearer error="invalid_token"',
    )
