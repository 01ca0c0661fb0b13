"""The session of somebody who calls `/v1` in a browser, after a login.

A cookie holds all of it; who sends none pays nothing for it.
"""

import time
from urllib.parse import urlencode, urlsplit

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from access.authentication.encrypted_sessions import WHOLE_SECONDS, SealedSession
from access.authentication.schemes import OidcConfig
from access.errors import CredentialRequired

COOKIE = "coulisse_session"

IDLE_SECONDS = 8 * 3600
"""How long a session lasts that is not used."""
RENEWED_SECONDS = 600
"""How old a cookie gets before it is made anew."""

ATTRIBUTE = "_coulisse_session"


class Session(SealedSession):
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


def subject(request: HttpRequest, oidc: OidcConfig) -> str | None:
    """Return who is logged in, by the provider's `sub`; None if nobody is."""
    cookie = request.COOKIES.get(COOKIE)
    if cookie is None:
        return None
    session = Session(cookie)
    found = session.get("login")
    if not isinstance(found, dict) or found["of"] != oidc.authority:
        return None
    now = int(time.time())
    if now - found["began_at"] > WHOLE_SECONDS:
        return None
    if now - found["seen_at"] > RENEWED_SECONDS:
        session["login"] = {**found, "seen_at": now}
        setattr(request, ATTRIBUTE, (session, oidc))
    name: str = found["sub"]
    return name


def begin(session: Session, oidc: OidcConfig, name: str) -> None:
    """Put down who has logged in."""
    now = int(time.time())
    session["login"] = {
        "sub": name,
        "of": oidc.authority,
        "began_at": now,
        "seen_at": now,
    }


def renew(request: HttpRequest, answer: HttpResponseBase) -> None:
    """Have a session that is used last longer."""
    found = getattr(request, ATTRIBUTE, None)
    if found is not None:
        keep(answer, *found)


def keep(answer: HttpResponseBase, session: Session, oidc: OidcConfig) -> None:
    """Give a session to the browser."""
    session.save()
    answer.set_cookie(
        COOKIE,
        session.session_key or "",
        max_age=IDLE_SECONDS,
        path="/",
        secure=oidc.is_over_https,
        httponly=True,
        samesite="Lax",
    )


def required(request: HttpRequest, oidc: OidcConfig) -> CredentialRequired:
    """Return what to raise for a request of nobody: browsers are sent to log in."""
    if request.method != "GET" or "text/html" not in request.headers.get("Accept", ""):
        return CredentialRequired()
    place = urlsplit(oidc.redirect_url)
    wanted = urlencode({"next": request.get_full_path()})
    return LoginRequired(f"{place.scheme}://{place.netloc}{place.path}?{wanted}")
