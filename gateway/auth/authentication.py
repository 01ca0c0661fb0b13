"""Authenticates requests as `auth.proxy` requires.

Without `auth.proxy` no credential is checked: SDKs always send some key.
"""

import re

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from access.authentication import login_throttle
from access.authentication.basic_auth import PasswordChecker
from access.authentication.config import AUTH, ProxyAuth
from access.authentication.oidc_tokens import TokenVerifier
from access.errors import CredentialRefused, CredentialRequired, OriginRefused
from access.tokens import api_tokens, token_secrets
from access.tokens.token_cache import TOKEN_CACHE
from access.users.caller import ANONYMOUS, CALLER_ATTRIBUTE, Caller, Scheme, from_token
from config import live
from config.config import SERVER, allowed_hosts
from core.errors import CoulisseError
from core.network import hosts
from core.text.sanitization import escape_and_truncate
from database import database_executor
from gateway import errors
from gateway.auth import browser_session
from gateway.errors import HOSTS_REMEDY

TURN_PATHS = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/messages"})
"""POST requests for which a cached token needs no check here: the turn's own database
transaction checks that the token is still valid."""

KEY_HEADER = "x-api-key"
"""The header with the credential in Anthropic's API."""
MAX_HEADER_LENGTH = 20_000
"""Characters of an `Authorization` header; a longer one is not parsed."""

TOKEN_PATTERN = re.compile(r"sk-[!-~]{16,200}")
"""Our tokens, and imported ones of LiteLLM, which has shorter ones. A text that is too
short to be random is not looked up."""


async def authenticate(request: HttpRequest) -> Caller:
    """Return the caller of a request, and store it for `caller_of`.

    A request is authenticated once: a second call returns the first result. Raises
    `Unauthenticated` for a missing or invalid credential, and `Unavailable` if it
    cannot be checked.
    """
    authenticated: Caller | None = getattr(request, CALLER_ATTRIBUTE, None)
    if authenticated is not None:
        return authenticated
    proxy = live.current().get(AUTH).proxy
    caller = ANONYMOUS if proxy is None else await get_checker(proxy).admit(request)
    setattr(request, CALLER_ATTRIBUTE, caller)
    return caller


async def authenticate_if_given(request: HttpRequest) -> Caller:
    """Return the caller of a request; `ANONYMOUS` without a valid credential."""
    try:
        return await authenticate(request)
    except CoulisseError:
        return ANONYMOUS


async def finish_response(
    request: HttpRequest, response: HttpResponseBase
) -> HttpResponseBase:
    """Return the response, once the credential is confirmed.

    A turn may have failed before it checked the token in the database. Clients with a
    revoked token must not see that error.
    """
    browser_session.renew_session(request, response)
    caller = getattr(request, CALLER_ATTRIBUTE, ANONYMOUS)
    if response.status_code < 400 or not caller.is_cached or caller.token is None:
        return response
    try:
        await _find_token(token_secrets.digest(bearer_token(request)))
    except CoulisseError as exc:
        TOKEN_CACHE.discard(caller.token.id)
        return errors.on_domain_error(request, exc)
    return response


class CredentialChecker:
    """Checks credentials by one version of `auth.proxy`."""

    def __init__(self, proxy: ProxyAuth) -> None:
        self.proxy = proxy
        self.verifier = None if proxy.oidc is None else TokenVerifier(proxy.oidc)
        """The verifier of the identity provider's tokens."""
        self._passwords = PasswordChecker(
            proxy.logins, realm="Coulisse", throttle=login_throttle.API_THROTTLE
        )

    async def admit(self, request: HttpRequest) -> Caller:
        """Return the caller of a request; raises as `authenticate` does."""
        if self.proxy.tokens is not None:
            return await _admit_token(request)
        if self.verifier is not None:
            return await self._admit_oidc_user(request, self.verifier)
        username = await self._passwords.check(
            request.headers.get("Authorization"), request.META.get("REMOTE_ADDR", "")
        )
        check_origin(request)
        return self._caller(username, "basic")

    async def _admit_oidc_user(
        self, request: HttpRequest, verifier: TokenVerifier
    ) -> Caller:
        if "Authorization" in request.headers or KEY_HEADER in request.headers:
            return self._caller(
                await verifier.verify_bearer_token(bearer_token(request)), "oidc"
            )
        subject = browser_session.session_subject(request, verifier.oidc)
        if subject is None:
            raise browser_session.credential_error(request, verifier.oidc)
        check_origin(request)
        return self._caller(subject, "oidc")

    def _caller(self, name: str, scheme: Scheme) -> Caller:
        return Caller(name, name if self.proxy.binds_users else None, scheme)


_credential_checker: CredentialChecker | None = None


def get_checker(proxy: ProxyAuth) -> CredentialChecker:
    """Return the credential checker, which is cached until `auth.proxy` changes."""
    global _credential_checker
    checker = _credential_checker
    if checker is None or (checker.proxy is not proxy and checker.proxy != proxy):
        checker = _credential_checker = CredentialChecker(proxy)
    return checker


async def _admit_token(request: HttpRequest) -> Caller:
    """Return the caller of an API token; raises as `authenticate` does."""
    secret = bearer_token(request)
    if not TOKEN_PATTERN.fullmatch(secret):
        raise CredentialRefused
    digest = token_secrets.digest(secret)
    if request.path in TURN_PATHS and request.method == "POST":
        token = TOKEN_CACHE.get(digest)
        if token is not None:
            return from_token(token, is_cached=True)
    return await _find_token(digest)


async def _find_token(digest: str) -> Caller:
    """Return the caller of a token; raises `CredentialRefused` and `DatabaseDown`."""
    token = await database_executor.run(api_tokens.verify, digest)
    if token is None:
        raise CredentialRefused
    return from_token(token)


def bearer_token(request: HttpRequest) -> str:
    """Return the bearer token of a request, or else the key in `x-api-key`.

    Raises `CredentialRequired` without a header, `CredentialRefused` for another
    scheme.
    """
    header = request.headers.get("Authorization", "")
    if not header.strip():
        key = request.headers.get(KEY_HEADER, "").strip()
        header = f"Bearer {key}" if key else ""
    if not header:
        raise CredentialRequired
    if len(header) > MAX_HEADER_LENGTH:
        raise CredentialRefused
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer":
        raise CredentialRefused(
            "This server requires a bearer token: send your API key as "
            "`Authorization: Bearer KEY`, not with another scheme"
        )
    token = token.strip()
    if not token:
        raise CredentialRequired
    return token


def check_origin(request: HttpRequest) -> None:
    """Raise `OriginRefused` for a request from a page of another site.

    Browsers add cookies and passwords automatically, for any page.
    """
    origin = request.headers.get("Origin")
    if origin is None:
        if request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
            return
        if request.method in ("GET", "HEAD"):
            return  # The page cannot read the response.
    elif origin in live.current().get(SERVER).allowed_origins or hosts.is_own_origin(
        origin, request.headers.get("Host"), allowed_hosts(live.current())
    ):
        return
    raise OriginRefused(
        f"Pages from '{escape_and_truncate(origin or 'another site')}' may not use "
        "this server with your login",
        detail=HOSTS_REMEDY,
    )
