"""What a browser may do with a page of the studio: nothing from elsewhere, no frames.

No script stands in a page. The shell's own (Alpine) reads expressions in attributes,
which it compiles, hence `unsafe-eval`; what people and models write is never markup.
"""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADER = "Content-Security-Policy"


class ContentSecurityPolicyMiddleware:
    """Middleware: says so with every answer that does not say it itself."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self._get_response(request)
        answer.headers.setdefault(HEADER, POLICY)
        return answer
