"""Who may enter the studio: what `auth.admin` says, or this machine alone."""

import time
from collections.abc import Callable
from typing import Any, cast

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import set_urlconf
from django.utils.functional import SimpleLazyObject

from access.authentication.config import AUTH, AdminAuth
from access.authentication.encrypted_sessions import WHOLE_SECONDS
from access.authentication.oidc_login import Departure, Login, Return
from access.authentication.oidc_tokens import Verifier
from access.authentication.schemes import OidcConfig
from access.errors import CredentialRequired
from config import live
from core.errors import CoulisseError, Denied
from gateway import errors
from gateway.auth import oidc_login
from gateway.auth.authentication import check_origin
from gateway.html_pages import Page
from studio.base import error_responses
from studio.security import accounts, local_requests, password_checks
from studio.server import error_middleware
from studio.server.error_middleware import wants_page

ROOT = "/admin/"
URL_NAME = "studio"
ENTERED = "entered"
"""In the session: when and by which provider's word."""


class Closed(Denied):
    """The studio is open to browsers on its own machine alone: auth.admin in \
coulisse.yaml says who else may enter."""

    code = "studio_closed"


class Door:
    """Middleware: lets in who may enter, and tells views who it is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # Logins lead to addresses of the studio, before Django looks one up.
        set_urlconf(request.urlconf)
        try:
            return self._check_access(request) or self._get_response(request)
        except CoulisseError as exc:
            errors.log(request.method or "", request.path, exc)
            return refusal(exc) if wants_page(request) else errors.response(exc)
        except error_responses.DATABASE_AWAY as exc:
            return error_middleware.without_database(request, exc)

    def _check_access(self, request: HttpRequest) -> HttpResponseBase | None:
        """Return what is answered in place of the page; None to let them in."""
        admin = live.current().get(AUTH).admin
        if admin is None:
            return self._check_local(request)
        keeper = _keeper_of(admin)
        if keeper.oidc_login is not None:
            return _log_in(keeper.oidc_login, request)
        username = password_checks.username(request, admin)
        check_origin(request)
        enter(request, username)
        return None

    def _check_local(self, request: HttpRequest) -> HttpResponseBase | None:
        if not local_requests.is_local(cast(ASGIRequest, request)):
            if not wants_page(request):
                raise Closed
            return Page("studio/closed.html", status=403)
        check_origin(request)
        enter(request, "local")
        return None


def enter(request: HttpRequest, username: str) -> None:
    """Tell views who it is; nothing is read before one asks."""
    somebody: Any = SimpleLazyObject(
        lambda: accounts.staff(username, role=accounts.newcomers())
    )
    request.user = somebody


class Keeper:
    """Knows people by one reading of `auth.admin`."""

    def __init__(self, admin: AdminAuth) -> None:
        self.admin = admin
        self.oidc_login = None if admin.oidc is None else _way_in(admin.oidc)
        """How people log in at the identity provider."""


def _way_in(oidc: OidcConfig) -> Login:
    """Return how people log in at an identity provider."""
    return Login(
        Verifier(oidc),
        root=ROOT,
        default_next_url=ROOT,
        url_name=URL_NAME,
        user_from_claims=accounts.by_claims,
    )


def _log_in(way: Login, request: HttpRequest) -> HttpResponseBase | None:
    """Take a step of somebody's login; None for who has done so."""
    authority = way.verifier.oidc.authority
    if _is_return(way, request):
        answer = _walk(Return(way), request)
        request.session[ENTERED] = {"by": authority, "at": int(time.time())}
        return answer
    if _has_entered(request, authority):
        check_origin(request)
        return None
    if request.method != "GET":
        raise CredentialRequired("Log in to the studio first", challenge="Cookie")
    return _walk(Departure(way, wanted=request.get_full_path()), request)


def _is_return(way: Login, request: HttpRequest) -> bool:
    is_place = way.is_callback_path(request.path)
    return is_place and request.method == "GET" and "state" in request.GET


def _has_entered(request: HttpRequest, authority: str) -> bool:
    entered = request.session.get(ENTERED)
    return (
        entered is not None
        and entered["by"] == authority
        and time.time() - entered["at"] < WHOLE_SECONDS
        and request.user.is_authenticated
    )


def _walk(view: Departure | Return, request: HttpRequest) -> HttpResponseBase:
    view.setup(request)
    answer: HttpResponseBase = view.get(request)
    return answer


_keeper: Keeper | None = None


def _keeper_of(admin: AdminAuth) -> Keeper:
    """Return who knows people; they stay until `auth.admin` is edited."""
    global _keeper
    found = _keeper
    if found is None or (found.admin is not admin and found.admin != admin):
        found = _keeper = Keeper(admin)
    return found


def refusal(exc: CoulisseError) -> HttpResponseBase:
    """Return the page that says why somebody may not enter."""
    page = oidc_login.failed(exc, again=ROOT)
    challenge = getattr(exc, "challenge", "")
    if challenge.startswith("Basic"):
        page.headers["WWW-Authenticate"] = challenge
    return page
