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
from access.authentication.encrypted_sessions import MAX_AGE_SECONDS
from access.authentication.oidc_login import (
    LoginCallbackView,
    LoginRequestView,
    OidcLogin,
)
from access.authentication.oidc_tokens import TokenVerifier
from access.authentication.schemes import OidcConfig
from access.errors import CredentialRequired
from config import live
from core.errors import CoulisseError, Denied
from gateway import errors
from gateway.auth import oidc_login
from gateway.auth.authentication import check_origin
from gateway.html_pages import HtmlPage
from studio.base import error_responses
from studio.security import accounts, local_requests, password_checks
from studio.server import error_middleware
from studio.server.error_middleware import wants_html

ROOT_PATH = "/admin/"
URL_NAME = "studio"
LOGIN_KEY = "entered"
"""In the session: when and by which provider's word."""


class StudioClosed(Denied):
    """The studio is open to browsers on its own machine alone: auth.admin in \
coulisse.yaml says who else may enter."""

    code = "studio_closed"


class AccessMiddleware:
    """Middleware: lets in who may enter, and tells views who it is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # Logins lead to addresses of the studio, before Django looks one up.
        set_urlconf(request.urlconf)
        try:
            return self._check_access(request) or self._get_response(request)
        except CoulisseError as exc:
            errors.log_error(request.method or "", request.path, exc)
            return (
                refusal_page(exc) if wants_html(request) else errors.error_response(exc)
            )
        except error_responses.DATABASE_ERRORS as exc:
            return error_middleware.database_error_response(request, exc)

    def _check_access(self, request: HttpRequest) -> HttpResponseBase | None:
        """Return what is answered in place of the page; None to let them in."""
        admin = live.current().get(AUTH).admin
        if admin is None:
            return self._check_local(request)
        keeper = _policy_of(admin)
        if keeper.oidc_login is not None:
            return _run_login(keeper.oidc_login, request)
        username = password_checks.checked_username(request, admin)
        check_origin(request)
        set_user(request, username)
        return None

    def _check_local(self, request: HttpRequest) -> HttpResponseBase | None:
        if not local_requests.is_local(cast(ASGIRequest, request)):
            if not wants_html(request):
                raise StudioClosed
            return HtmlPage("studio/closed.html", status=403)
        check_origin(request)
        set_user(request, "local")
        return None


def set_user(request: HttpRequest, username: str) -> None:
    """Tell views who it is; nothing is read before one asks."""
    somebody: Any = SimpleLazyObject(
        lambda: accounts.get_or_create_user(username, role=accounts.newcomer_role())
    )
    request.user = somebody


class AccessPolicy:
    """Knows people by one reading of `auth.admin`."""

    def __init__(self, admin: AdminAuth) -> None:
        self.admin = admin
        self.oidc_login = None if admin.oidc is None else _build_login(admin.oidc)
        """How people log in at the identity provider."""


def _build_login(oidc: OidcConfig) -> OidcLogin:
    """Return how people log in at an identity provider."""
    return OidcLogin(
        TokenVerifier(oidc),
        root=ROOT_PATH,
        default_next_url=ROOT_PATH,
        url_name=URL_NAME,
        user_from_claims=accounts.user_from_claims,
    )


def _run_login(way: OidcLogin, request: HttpRequest) -> HttpResponseBase | None:
    """Take a step of somebody's login; None for who has done so."""
    authority = way.verifier.oidc.authority
    if _is_callback(way, request):
        answer = _run_view(LoginCallbackView(way), request)
        request.session[LOGIN_KEY] = {"by": authority, "at": int(time.time())}
        return answer
    if _is_logged_in(request, authority):
        check_origin(request)
        return None
    if request.method != "GET":
        raise CredentialRequired("Log in to the studio first", challenge="Cookie")
    return _run_view(LoginRequestView(way, wanted=request.get_full_path()), request)


def _is_callback(way: OidcLogin, request: HttpRequest) -> bool:
    is_place = way.is_callback_path(request.path)
    return is_place and request.method == "GET" and "state" in request.GET


def _is_logged_in(request: HttpRequest, authority: str) -> bool:
    entered = request.session.get(LOGIN_KEY)
    return (
        entered is not None
        and entered["by"] == authority
        and time.time() - entered["at"] < MAX_AGE_SECONDS
        and request.user.is_authenticated
    )


def _run_view(
    view: LoginRequestView | LoginCallbackView, request: HttpRequest
) -> HttpResponseBase:
    view.setup(request)
    answer: HttpResponseBase = view.get(request)
    return answer


_access_policy: AccessPolicy | None = None


def _policy_of(admin: AdminAuth) -> AccessPolicy:
    """Return who knows people; they stay until `auth.admin` is edited."""
    global _access_policy
    found = _access_policy
    if found is None or (found.admin is not admin and found.admin != admin):
        found = _access_policy = AccessPolicy(admin)
    return found


def refusal_page(exc: CoulisseError) -> HttpResponseBase:
    """Return the page that says why somebody may not enter."""
    page = oidc_login.login_failed_page(exc, again=ROOT_PATH)
    challenge = getattr(exc, "challenge", "")
    if challenge.startswith("Basic"):
        page.headers["WWW-Authenticate"] = challenge
    return page
