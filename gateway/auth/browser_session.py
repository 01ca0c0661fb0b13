"""Browser sessions of `/v1`, after an OIDC login.

A cookie holds the whole session; requests without the cookie have no extra cost.
"""

import time
from urllib.parse import urlencode, urlsplit

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from access.authentication.encrypted_sessions import MAX_AGE_SECONDS, EncryptedSession
from access.authentication.schemes import OidcConfig
from access.errors import CredentialRequired

COOKIE_NAME = "coulisse_session"

IDLE_SECONDS = 8 * 3600
"""The time after which an unused session expires."""
RENEW_AFTER_SECONDS = 600
"""The age after which a cookie is renewed."""

SESSION_ATTRIBUTE = "_coulisse_session"


class ApiSession(EncryptedSession):
    """The session that a browser stores."""

    purpose = "proxy"

    def get_session_cookie_age(self) -> int:
        return IDLE_SECONDS


class LoginRequired(CredentialRequired):
    """Log in at the identity provider first."""

    def __init__(self, location: str) -> None:
        super().__init__()
        self.location = location
        """The address of the login."""


def session_subject(request: HttpRequest, oidc: OidcConfig) -> str | None:
    """Return the `sub` of the logged-in user; None without a login."""
    cookie = request.COOKIES.get(COOKIE_NAME)
    if cookie is None:
        return None
    session = ApiSession(cookie)
    login = session.get("login")
    if not isinstance(login, dict) or login["authority"] != oidc.authority:
        return None
    now = int(time.time())
    if now - login["started_at"] > MAX_AGE_SECONDS:
        return None
    if now - login["seen_at"] > RENEW_AFTER_SECONDS:
        session["login"] = {**login, "seen_at": now}
        setattr(request, SESSION_ATTRIBUTE, (session, oidc))
    subject: str = login["sub"]
    return subject


def start_session(session: ApiSession, oidc: OidcConfig, subject: str) -> None:
    """Store a login in the session."""
    now = int(time.time())
    session["login"] = {
        "sub": subject,
        "authority": oidc.authority,
        "started_at": now,
        "seen_at": now,
    }


def renew_session(request: HttpRequest, response: HttpResponseBase) -> None:
    """Extend a session that is in use."""
    renewed = getattr(request, SESSION_ATTRIBUTE, None)
    if renewed is not None:
        session, oidc = renewed
        set_cookie(response, session, oidc)


def set_cookie(
    response: HttpResponseBase, session: ApiSession, oidc: OidcConfig
) -> None:
    session.save()
    response.set_cookie(
        COOKIE_NAME,
        session.session_key or "",
        max_age=IDLE_SECONDS,
        path="/",
        secure=oidc.is_over_https,
        httponly=True,
        samesite="Lax",
    )


def credential_error(request: HttpRequest, oidc: OidcConfig) -> CredentialRequired:
    """Return the error for a missing credential; it redirects browsers to the login."""
    if request.method != "GET" or "text/html" not in request.headers.get("Accept", ""):
        return CredentialRequired()
    url = urlsplit(oidc.redirect_url)
    query = urlencode({"next": request.get_full_path()})
    return LoginRequired(f"{url.scheme}://{url.netloc}{url.path}?{query}")
