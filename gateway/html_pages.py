"""Pages for people: what a user sees in a browser on the way through a sign-in."""

import secrets
from typing import Any

from django.http import HttpResponse
from django.template import loader


class HtmlPage(HttpResponse):
    """A whole page of ours; an error, too, stays as it is.

    Nothing on it comes from elsewhere or runs, and nobody may keep it or frame it. Its
    address, which holds secrets, is told to no other site.
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


def set_no_store(answer: HttpResponse) -> None:
    """Have an answer kept by nobody, and its address told to nobody."""
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["Referrer-Policy"] = "no-referrer"
