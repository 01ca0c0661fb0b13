"""Access to the studio: by `auth.admin`, or from this machine only."""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import set_urlconf
from django.utils.functional import SimpleLazyObject

from access.authentication import accounts, local_requests
from access.authentication.config import AUTH
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
from studio.security import password_checks
from studio.server.middleware import error_response, wants_html

ROOT_PATH = "/admin/"
URL_NAME = "admin:index"
LOGIN_KEY = "login"
"""The session key of the login: its time and its provider."""


class StudioLocked(Denied):
    """The studio has no login, so only its own machine may open it. Configure \
auth.admin in coulisse.yaml."""

    code = "studio_closed"


class AccessMiddleware:
    """Middleware: admits authorized users, and passes the user to the views."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # Login addresses are within the studio and come before URL resolution.
        set_urlconf(request.urlconf)
        try:
            return self._check_access(request) or self._get_response(request)
        except CoulisseError as exc:
            errors.log_error(request.method or "", request.path, exc)
            return (
                refusal_page(exc) if wants_html(request) else errors.error_response(exc)
            )
        except error_responses.DATABASE_ERRORS as exc:
            return error_response(request, exc)

    def _check_access(self, request: HttpRequest) -> HttpResponseBase | None:
        """Return the response that replaces the page; None to admit the request."""
        admin = live.current().get(AUTH).admin
        if admin is None:
            return self._check_local(request)
        if admin.oidc is not None:
            return _run_login(_login_of(admin.oidc), request)
        username = password_checks.checked_username(request, admin)
        check_origin(request)
        set_user(request, username)
        return None

    def _check_local(self, request: HttpRequest) -> HttpResponseBase | None:
        if not local_requests.is_local(cast(ASGIRequest, request)):
            if not wants_html(request):
                raise StudioLocked
            return HtmlPage("studio/errors/locked.html", status=403)
        check_origin(request)
        set_user(request, "local")
        return None


def set_user(request: HttpRequest, username: str) -> None:
    """Set the user of the request; rows are read on first use."""
    user: Any = SimpleLazyObject(
        lambda: accounts.get_or_create_user(username, role=accounts.newcomer_role())
    )
    request.user = user


@lru_cache(maxsize=1)
def _login_of(oidc: OidcConfig) -> OidcLogin:
    """Return the OIDC login, which is cached until `auth.admin` changes."""
    return OidcLogin(
        TokenVerifier(oidc),
        root=ROOT_PATH,
        default_next_url=ROOT_PATH,
        url_name=URL_NAME,
        user_from_claims=accounts.user_from_claims,
    )


def _run_login(login: OidcLogin, request: HttpRequest) -> HttpResponseBase | None:
    """Run one step of the login; None if the user is logged in."""
    authority = login.verifier.oidc.authority
    if _is_callback(login, request):
        response = _run_view(LoginCallbackView(login), request)
        request.session[LOGIN_KEY] = {"by": authority, "at": int(time.time())}
        return response
    if _is_logged_in(request, authority):
        check_origin(request)
        return None
    if request.method != "GET":
        raise CredentialRequired("Log in to the studio first", challenge="Cookie")
    return _run_view(LoginRequestView(login, next_url=request.get_full_path()), request)


def _is_callback(login: OidcLogin, request: HttpRequest) -> bool:
    is_callback = login.is_callback_path(request.path)
    return is_callback and request.method == "GET" and "state" in request.GET


def _is_logged_in(request: HttpRequest, authority: str) -> bool:
    stored = request.session.get(LOGIN_KEY)
    return (
        stored is not None
        and stored["by"] == authority
        and time.time() - stored["at"] < MAX_AGE_SECONDS
        and request.user.is_authenticated
    )


def _run_view(
    view: LoginRequestView | LoginCallbackView, request: HttpRequest
) -> HttpResponseBase:
    view.setup(request)
    response: HttpResponseBase = view.get(request)
    return response


def refusal_page(exc: CoulisseError) -> HttpResponseBase:
    page = oidc_login.login_failed_page(exc, login_url=ROOT_PATH)
    challenge = getattr(exc, "challenge", "")
    if challenge.startswith("Basic"):
        page.headers["WWW-Authenticate"] = challenge
    return page
