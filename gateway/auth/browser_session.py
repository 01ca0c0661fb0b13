"""The session of somebody who calls `/v1` in a browser, after a login.

A cookie holds all of it; who sends none pays nothing for it.
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
"""How long a session lasts that is not used."""
RENEW_AFTER_SECONDS = 600
"""How old a cookie gets before it is made anew."""

SESSION_ATTRIBUTE = "_coulisse_session"


class ApiSession(EncryptedSession):
    """What a browser keeps for us."""

    purpose = "proxy"

    def get_session_cookie_age(self) -> int:
        return IDLE_SECONDS


class LoginRequired(CredentialRequired):
    """Log in at the identity provider first."""

    def __init__(self, location: str) -> None:
        super().__init__()
        self.location = location
        """Where that begins."""


def session_subject(request: HttpRequest, oidc: OidcConfig) -> str | None:
    """Return who is logged in, by the provider's `sub`; None if nobody is."""
    cookie = request.COOKIES.get(COOKIE_NAME)
    if cookie is None:
        return None
    session = ApiSession(cookie)
    found = session.get("login")
    if not isinstance(found, dict) or found["of"] != oidc.authority:
        return None
    now = int(time.time())
    if now - found["began_at"] > MAX_AGE_SECONDS:
        return None
    if now - found["seen_at"] > RENEW_AFTER_SECONDS:
        session["login"] = {**found, "seen_at": now}
        setattr(request, SESSION_ATTRIBUTE, (session, oidc))
    name: str = found["sub"]
    return name


def start_session(session: ApiSession, oidc: OidcConfig, name: str) -> None:
    """Put down who has logged in."""
    now = int(time.time())
    session["login"] = {
        "sub": name,
        "of": oidc.authority,
        "began_at": now,
        "seen_at": now,
    }


def renew_session(request: HttpRequest, answer: HttpResponseBase) -> None:
    """Have a session that is used last longer."""
    found = getattr(request, SESSION_ATTRIBUTE, None)
    if found is not None:
        set_cookie(answer, *found)


def set_cookie(answer: HttpResponseBase, session: ApiSession, oidc: OidcConfig) -> None:
    """Give a session to the browser."""
    session.save()
    answer.set_cookie(
        COOKIE_NAME,
        session.session_key or "",
        max_age=IDLE_SECONDS,
        path="/",
        secure=oidc.is_over_https,
        httponly=True,
        samesite="Lax",
    )


def credential_error(request: HttpRequest, oidc: OidcConfig) -> CredentialRequired:
    """Return what to raise for a request of nobody: browsers are sent to log in."""
    if request.method != "GET" or "text/html" not in request.headers.get("Accept", ""):
        return CredentialRequired()
    place = urlsplit(oidc.redirect_url)
    wanted = urlencode({"next": request.get_full_path()})
    return LoginRequired(f"{place.scheme}://{place.netloc}{place.path}?{wanted}")
