"""HTML pages for users, such as those of the sign-in to an MCP server."""

import secrets
from typing import Any

from django.http import HttpResponse
from django.template import loader


class HtmlPage(HttpResponse):
    """A complete HTML page; error pages stay HTML, too.

    The page loads nothing external, runs no script, and must not be stored or framed.
    Its address contains secrets, so the referrer is not sent.
    """

    def __init__(self, template: str, *, status: int = 200, **context: Any) -> None:
        nonce = secrets.token_urlsafe(16)
        text = loader.render_to_string(template, {**context, "nonce": nonce})
        super().__init__(text, status=status)
        policy = (
            f"default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'"
        )
        self.headers["Content-Security-Policy"] = policy
        self.headers["X-Content-Type-Options"] = "nosniff"
        self.headers["X-Robots-Tag"] = "noindex"
        set_no_store(self)


def set_no_store(response: HttpResponse) -> None:
    """Set no-store and no-referrer."""
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = "no-referrer"
