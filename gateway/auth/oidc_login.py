"""`auth.proxy.oidc`'s `redirect_url`: where a browser's login begins and ends."""

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
from access.authentication.oidc_login import Departure, Login, Return
from config import live
from core.errors import CoulisseError
from gateway import errors
from gateway.auth import authentication, browser_session
from gateway.auth.browser_session import Session
from gateway.html_pages import Page

LANDING = "/v1/models"
URL_NAME = "proxy-login"

_threads = ThreadPoolExecutor(4, "login")
"""They wait for the identity provider."""


@dataclass
class Person:
    """Somebody the provider knows; nothing of them is stored."""

    sub: str
    is_active = True


class Nobody:
    """Who has not logged in yet."""

    is_authenticated = False


class Arrival(Return):
    """Takes somebody back to `/v1`."""

    def login_success(self) -> HttpResponseBase:
        browser_session.begin(
            self.request.session, self.login.verifier.oidc, self.user.sub
        )
        return HttpResponseRedirect(self.success_url)


async def serve(request: HttpRequest, rest: str = "") -> HttpResponseBase:
    """Answer at the address logins come back to; any other one is not there."""
    try:
        proxy = live.current().get(AUTH).proxy
    except CoulisseError as exc:
        return errors.on_domain_error(request, exc)
    verifier = None if proxy is None else authentication.guard(proxy).verifier
    if verifier is None:
        return HttpResponseNotFound()
    login = Login(
        verifier,
        root="/v1/",
        default_next_url=LANDING,
        url_name=URL_NAME,
        user_from_claims=person,
    )
    if not login.is_callback_path(request.path):
        return HttpResponseNotFound()
    if request.method != "GET":
        return HttpResponseNotAllowed(["GET"])
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads, context.run, walk, request, login)


def person(claims: Mapping[str, Any]) -> Person:
    return Person(claims["sub"])


def walk(request: HttpRequest, login: Login) -> HttpResponseBase:
    """Take one step of a login: there, or back."""
    request.session = Session(request.COOKIES.get(browser_session.COOKIE))
    request.user = Nobody()  # type: ignore[assignment]
    is_back = "state" in request.GET
    try:
        wanted = request.GET.get("next", "")
        view = Arrival(login) if is_back else Departure(login, wanted=wanted)
        view.setup(request)
        answer: HttpResponseBase = view.get(request)
    except CoulisseError as exc:
        errors.log(request.method or "", request.path, exc)
        return failed(exc, again=LANDING)
    browser_session.keep(answer, request.session, login.verifier.oidc)
    return answer


def failed(exc: CoulisseError, *, again: str) -> Page:
    """Return the page that says why somebody is not logged in, and where to be so."""
    status = errors.kind_of(exc).status
    seconds = errors.retry_after_seconds(exc)
    page = Page(
        "login/failed.html",
        status=status,
        says=exc.message,
        again=again,
        must_wait=seconds is not None,
    )
    if seconds is not None:
        page.headers["Retry-After"] = str(math.ceil(seconds))
    return page
