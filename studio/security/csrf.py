"""Refuses what a page of another site has a browser send to the studio.

Browsers send cookies and passwords by themselves, whoever asks them to. Each of them
says where a change comes from (`Origin`), so what says nothing of the kind is no
browser: scripts need no token of a form.
"""

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from core.errors import Denied
from gateway.auth import authentication

BROWSER_HEADERS = ("Origin", "Referer", "Sec-Fetch-Site")


class FormExpired(Denied):
    """This form is no longer valid: load its page again, and send it once more."""

    code = "csrf_failed"


class StudioCsrfMiddleware(CsrfViewMiddleware):
    """Django's own check, by the server's own idea of its names."""

    def _origin_verified(self, request: HttpRequest) -> bool:
        # Behind a proxy with TLS, Django would compare the scheme, too.
        return authentication.is_own_origin(request.headers["Origin"], request)


class _CsrfCheck(StudioCsrfMiddleware):
    """Tells the reason in place of answering."""

    def _reject(self, request: HttpRequest, reason: str) -> str:
        return reason


def check_csrf(request: HttpRequest) -> None:
    """Raise `FormExpired` for a browser's change that no form of ours asked for."""
    if not any(name in request.headers for name in BROWSER_HEADERS):
        return
    authentication.check_origin(request)
    checking = _CsrfCheck(_unused_view)
    checking.process_request(request)
    if checking.process_view(request, _unused_view, (), {}) is not None:
        raise FormExpired


def _unused_view(request: HttpRequest) -> HttpResponse:
    raise AssertionError("only the check is wanted")
