"""The error pages of the sign-in to MCP servers, by error class."""

from dataclasses import dataclass, replace

from config.errors import SecretsInvalid
from core.errors import CoulisseError, Invalid, Unavailable
from gateway import errors
from mcp_bridge.oauth.errors import (
    AuthServerRefused,
    AuthServerTimedOut,
    AuthServerUnreachable,
    BrowserMismatch,
    LinkExpired,
    LinkInvalid,
    LinkUsed,
    ServerUnknown,
    SignInFailed,
    SignInUnsupported,
    UserMismatch,
)

REQUEST_NEW_LINK = "Go back to the chat and ask for a new link."
RETRY_LATER = "Wait a moment, then open the link again or ask for a new one."
REQUEST_NEW_LINK_LATER = (
    "Wait a moment, then go back to the chat and ask for a new link."
)
CONTACT_OPERATOR = "Contact the operator of this server; its log has details."


@dataclass(frozen=True, slots=True)
class ErrorPage:
    status: int
    title: str
    remedy: str
    detail: str = ""
    """The provider's own message."""


ERROR_PAGES: dict[type[CoulisseError], ErrorPage] = {
    # More specific classes come first.
    ServerUnknown: ErrorPage(404, "Unknown MCP server", REQUEST_NEW_LINK),
    SignInUnsupported: ErrorPage(
        404,
        "No sign-in needed",
        "Go back to the chat. You can use this server without a sign-in.",
    ),
    LinkExpired: ErrorPage(410, "This link has expired", REQUEST_NEW_LINK),
    LinkUsed: ErrorPage(
        410,
        "This link was already used",
        "Go back to the chat. If you are not connected yet, ask for a new link.",
    ),
    LinkInvalid: ErrorPage(400, "This link is not valid", REQUEST_NEW_LINK),
    UserMismatch: ErrorPage(
        403,
        "This link is for another user",
        "Each link is for one user. Ask for your own link in the chat.",
    ),
    BrowserMismatch: ErrorPage(
        403,
        "This sign-in started in another browser",
        "Open the link and sign in with the same browser, and allow cookies. If you "
        "did not open a link yourself, close this window.",
    ),
    AuthServerRefused: ErrorPage(
        502, "The provider refused the sign-in", REQUEST_NEW_LINK
    ),
    AuthServerTimedOut: ErrorPage(
        504, "The provider did not respond in time", RETRY_LATER
    ),
    AuthServerUnreachable: ErrorPage(
        502, "The provider cannot be reached", RETRY_LATER
    ),
    SignInFailed: ErrorPage(
        502,
        "The provider sent an invalid response",
        f"{REQUEST_NEW_LINK} {CONTACT_OPERATOR}",
    ),
    SecretsInvalid: ErrorPage(
        503, "This server cannot store secrets", CONTACT_OPERATOR
    ),
    Unavailable: ErrorPage(
        503, "This server is not ready", f"{RETRY_LATER} {CONTACT_OPERATOR}"
    ),
    Invalid: ErrorPage(400, "The request is not valid", REQUEST_NEW_LINK),
}

CONSENT_DECLINED = ErrorPage(
    403,
    "You declined access",
    "To connect, go back to the chat and ask for a new link.",
)


def error_page_of(exc: CoulisseError, *, is_link_used: bool) -> ErrorPage:
    """Return the page of an error; it never offers a used link again."""
    if isinstance(exc, AuthServerRefused) and exc.error == "access_denied":
        return CONSENT_DECLINED
    page = next(
        (page for family, page in ERROR_PAGES.items() if isinstance(exc, family)), None
    )
    if page is None:
        status = errors.error_shape(exc).status
        return ErrorPage(
            status, "The sign-in failed", f"{REQUEST_NEW_LINK} {CONTACT_OPERATOR}"
        )
    if isinstance(exc, AuthServerRefused):
        return replace(page, detail=exc.description)
    if is_link_used:
        remedy = page.remedy.replace(RETRY_LATER, REQUEST_NEW_LINK_LATER)
        return replace(page, remedy=remedy)
    return page
