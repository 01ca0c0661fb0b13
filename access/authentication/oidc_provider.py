"""The published metadata of an identity provider: its endpoints and its keys.

Read on first use and refreshed periodically; the last version stays in use while the
provider is down. Sources: OpenID Connect Discovery 1.0, RFC 7517.
"""

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from access.authentication import oidc_http
from access.errors import IdentityProviderBroken, IdentityProviderDown

REFRESH_SECONDS = 600.0
"""The age at which keys are read again."""

MIN_REFRESH_SECONDS = 10.0
"""The shortest interval between two reads, so that tokens with unknown key names do not
each cause a request to the provider."""

MAX_KEYS = 100

ALGORITHMS = {
    # By a key's type and curve; only those with a public half.
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}

SUPPORTED_ALGORITHMS = frozenset(
    name for names in ALGORITHMS.values() for name in names
)

logger = logging.getLogger(__name__)

_refresh_pool = ThreadPoolExecutor(2, "identity-provider")


@dataclass(frozen=True)
class ProviderMetadata:
    """The metadata of a provider, as last read."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    keys: tuple[dict[str, Any], ...]
    token_auth_methods: tuple[str, ...]
    """How a client may authenticate at the token endpoint."""


class IdentityProvider:
    """An identity provider, by its issuer's address."""

    def __init__(self, issuer_url: str) -> None:
        self.issuer_url = issuer_url
        self._metadata: ProviderMetadata | None = None
        self._refreshed_at: float | None = None
        """The time of the last attempt to read, on the monotonic clock."""
        self._error: IdentityProviderDown | None = None
        """The error of the last attempt."""
        self._lock = threading.Lock()
        self._refreshing: Future[None] | None = None

    def needs_refresh(self, kid: str | None, algorithm: str) -> bool:
        """Return whether a key is unknown and a new read is allowed."""
        metadata = self._metadata
        if metadata is not None and _select_keys(metadata, kid, algorithm):
            return False
        return self._is_due(MIN_REFRESH_SECONDS)

    def refresh(self) -> "Future[None]":
        """Read the metadata in a thread, once for concurrent callers; never fails."""
        with self._lock:
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = _refresh_pool.submit(self._refresh)
            return self._refreshing

    def refresh_if_old(self) -> None:
        """Start a refresh if it is due, without waiting for it."""
        if self._is_due(REFRESH_SECONDS):
            self.refresh()

    def fetch_metadata(self) -> ProviderMetadata:
        """Return the metadata; read it now if it was never read.

        Raises `IdentityProviderDown`. Call it from a thread, since it blocks.
        """
        if self._metadata is None:
            self.refresh().result()
        return self.require_metadata()

    def require_metadata(self) -> ProviderMetadata:
        """Return the metadata; raises `IdentityProviderDown` if it was never read."""
        if self._metadata is None:
            raise self._error or IdentityProviderDown()
        return self._metadata

    def keys(self, kid: str | None, algorithm: str) -> list[PyJWK]:
        """Return the keys that may have signed a token with this key name.

        Raises `IdentityProviderDown` if there are none and the provider was
        unavailable.
        """
        keys = _select_keys(self.require_metadata(), kid, algorithm)
        if not keys and self._error is not None:
            raise self._error
        return list(_parse_keys(keys, algorithm))

    def _is_due(self, seconds: float) -> bool:
        if self._refreshed_at is None:
            return True
        return time.monotonic() - self._refreshed_at >= seconds

    def _refresh(self) -> None:
        try:
            self._metadata = _discover(self.issuer_url)
            self._error = None
        except IdentityProviderDown as exc:
            logger.warning("identity provider %s: %s", self.issuer_url, exc)
            self._error = exc
        finally:
            self._refreshed_at = time.monotonic()


def _discover(issuer_url: str) -> ProviderMetadata:
    url = f"{issuer_url.rstrip('/')}/.well-known/openid-configuration"
    document = oidc_http.get_json(url)
    issuer = _require_text(document, "issuer", url)
    # The publisher of one issuer's metadata must not speak for another issuer.
    if issuer.rstrip("/") != issuer_url.rstrip("/"):
        raise IdentityProviderBroken(
            f"{url} has the issuer {issuer!r}; set 'issuer_url' to it, or correct the "
            "provider's metadata"
        )
    names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    authorization, token, jwks_uri = (
        _require_endpoint(document, name, url) for name in names
    )
    keys = oidc_http.get_json(jwks_uri).get("keys")
    if not isinstance(keys, list):
        raise IdentityProviderBroken(f"{jwks_uri} has no 'keys'")
    usable = tuple(key for key in keys[:MAX_KEYS] if _is_usable(key))
    methods = document.get("token_endpoint_auth_methods_supported")
    if not isinstance(methods, list):
        methods = ["client_secret_basic"]  # OpenID Connect's default.
    return ProviderMetadata(
        issuer, authorization, token, usable, tuple(map(str, methods))
    )


def _require_text(document: dict[str, Any], name: str, document_url: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise IdentityProviderBroken(f"{document_url} has no '{name}'")
    return value


def _require_endpoint(document: dict[str, Any], name: str, document_url: str) -> str:
    endpoint = _require_text(document, name, document_url)
    allowed = ("https",) if document_url.startswith("https:") else ("http", "https")
    try:
        is_allowed = urlsplit(endpoint).scheme in allowed
    except ValueError:
        is_allowed = False
    if not is_allowed:
        raise IdentityProviderBroken(
            f"{document_url}: '{name}' is not an https address"
        )
    return endpoint


def _is_usable(key: Any) -> bool:
    return (
        isinstance(key, dict)
        and key.get("use", "sig") == "sig"
        # A list of a few: published values may not be hashable.
        and (key.get("kty"), key.get("crv")) in list(ALGORITHMS)
    )


def _select_keys(
    metadata: ProviderMetadata, kid: str | None, algorithm: str
) -> list[dict[str, Any]]:
    """Return the keys for an algorithm: those with the key name, or all without one."""
    return [
        key
        for key in metadata.keys
        if kid in (None, key.get("kid"))
        and algorithm in ALGORITHMS[key["kty"], key.get("crv")]
        and key.get("alg", algorithm) == algorithm
    ]


def _parse_keys(keys: Iterable[dict[str, Any]], algorithm: str) -> Iterable[PyJWK]:
    for key in keys:
        try:
            yield PyJWK(key, algorithm=algorithm)
        except PyJWTError as exc:
            logger.warning("ignoring an invalid key of the identity provider: %s", exc)
