"""The content security policy: no external sources, no frames.

Pages contain no inline scripts. The shell's script (Alpine) compiles expressions from
attributes, hence `unsafe-eval`. Text of users and models is never markup.
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
    """Middleware: adds the policy to each response that sets none itself."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        response.headers.setdefault(HEADER, POLICY)
        return response
