"""Refuses requests that pages of other sites make a browser send.

Browsers add cookies and passwords to such requests by themselves, and send `Origin`
with every change. A request without it is not from a browser, so scripts need no form
token.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from rest_framework.authentication import CSRFCheck

from config import live
from config.config import allowed_hosts
from core.errors import Denied
from core.network import hosts

BROWSER_HEADERS = ("Origin", "Referer", "Sec-Fetch-Site")


class FormExpired(Denied):
    """This form has expired. Reload its page and submit it again."""

    code = "csrf_failed"


class StudioCsrfMiddleware(CsrfViewMiddleware):
    """Django's CSRF check, with the server's own list of hosts."""

    def _origin_verified(self, request: HttpRequest) -> bool:
        # Behind a proxy with TLS, Django would compare the scheme, too.
        return hosts.is_own_origin(
            request.headers["Origin"],
            request.headers.get("Host"),
            allowed_hosts(live.current()),
        )


class _CsrfCheck(CSRFCheck, StudioCsrfMiddleware):
    """Returns the reason in place of a response."""


def check_csrf(request: HttpRequest) -> None:
    """Raise `FormExpired` for a browser's change without a form of the studio."""
    if not any(name in request.headers for name in BROWSER_HEADERS):
        # Django's form views check again, unless this says that it is done.
        request.csrf_processing_done = True  # type: ignore[attr-defined]
        return
    check: Any = _CsrfCheck(lambda request: HttpResponse())
    check.process_request(request)
    if check.process_view(request, None, (), {}) is not None:
        raise FormExpired
