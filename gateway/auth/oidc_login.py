"""The pages of the browser login, at `redirect_url` of `auth.proxy.oidc`."""

import asyncio
import contextvars
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from django.http import (
    HttpRequest,
    HttpResponseNotAllowed,
    HttpResponseNotFound,
    HttpResponseRedirect,
)
from django.http.response import HttpResponseBase

from access.authentication.config import AUTH
from access.authentication.oidc_login import (
    LoginCallbackView,
    LoginRequestView,
    OidcLogin,
)
from config import live
from core.errors import CoulisseError
from gateway import errors
from gateway.auth import authentication, browser_session
from gateway.auth.browser_session import ApiSession
from gateway.html_pages import HtmlPage

DEFAULT_NEXT_URL = "/v1/models"
URL_NAME = "proxy-login"

_thread_pool = ThreadPoolExecutor(4, "login")
"""These threads wait for the identity provider."""


@dataclass
class OidcUser:
    """A user of the identity provider; not stored here."""

    sub: str
    is_active = True


class UnknownUser:
    """A user who has not logged in yet."""

    is_authenticated = False


class ApiLoginCallbackView(LoginCallbackView):
    """Completes the login and redirects to `/v1`."""

    def login_success(self) -> HttpResponseBase:
        browser_session.start_session(
            self.request.session, self.login.verifier.oidc, self.user.sub
        )
        return HttpResponseRedirect(self.success_url)


async def serve(request: HttpRequest, path: str = "") -> HttpResponseBase:
    """Serve the callback address; 404 for any other one."""
    try:
        proxy = live.current().get(AUTH).proxy
    except CoulisseError as exc:
        return errors.on_domain_error(request, exc)
    verifier = None if proxy is None else authentication.get_checker(proxy).verifier
    if verifier is None:
        return HttpResponseNotFound()
    login = OidcLogin(
        verifier,
        root="/v1/",
        default_next_url=DEFAULT_NEXT_URL,
        url_name=URL_NAME,
        user_from_claims=user_from_claims,
    )
    if not login.is_callback_path(request.path):
        return HttpResponseNotFound()
    if request.method != "GET":
        return HttpResponseNotAllowed(["GET"])
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
        _thread_pool, context.run, run_login_step, request, login
    )


def user_from_claims(claims: Mapping[str, Any]) -> OidcUser:
    return OidcUser(claims["sub"])


def run_login_step(request: HttpRequest, login: OidcLogin) -> HttpResponseBase:
    """Run one step of a login: the redirect or the callback."""
    request.session = ApiSession(request.COOKIES.get(browser_session.COOKIE_NAME))
    request.user = UnknownUser()  # type: ignore[assignment]
    try:
        view = (
            ApiLoginCallbackView(login)
            if "state" in request.GET
            else LoginRequestView(login, next_url=request.GET.get("next", ""))
        )
        view.setup(request)
        response: HttpResponseBase = view.get(request)
    except CoulisseError as exc:
        errors.log_error(request.method or "", request.path, exc)
        return login_failed_page(exc, login_url=DEFAULT_NEXT_URL)
    browser_session.set_cookie(response, request.session, login.verifier.oidc)
    return response


def login_failed_page(exc: CoulisseError, *, login_url: str) -> HtmlPage:
    """Return the page that explains a failed login and links to a new one."""
    status = errors.error_shape(exc).status
    seconds = errors.retry_after_seconds(exc)
    page = HtmlPage(
        "login/failed.html",
        status=status,
        message=exc.message,
        login_url=login_url,
        must_wait=seconds is not None,
    )
    if seconds is not None:
        page.headers["Retry-After"] = str(math.ceil(seconds))
    return page
