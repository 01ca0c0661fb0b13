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
CONTACT_OPERATOR = "Tell whoever runs this server; its log says more."


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """The texts of one error page."""

    status: int
    title: str
    remedy: str
    detail: str = ""
    """The provider's own message."""


ERROR_PAGES: list[tuple[type[CoulisseError], ErrorPage]] = [
    # More specific classes come first.
    (ServerUnknown, ErrorPage(404, "This server does not know it", REQUEST_NEW_LINK)),
    (
        SignInUnsupported,
        ErrorPage(404, "It needs no sign-in", "Go back to the chat and use it."),
    ),
    (LinkExpired, ErrorPage(410, "This link has expired", REQUEST_NEW_LINK)),
    (
        LinkUsed,
        ErrorPage(
            410,
            "This link was used already",
            "If you have just connected, all is well: go back to the chat. If not, "
            "ask there for a new link.",
        ),
    ),
    (LinkInvalid, ErrorPage(400, "This link is not valid", REQUEST_NEW_LINK)),
    (
        UserMismatch,
        ErrorPage(
            403,
            "This link is another user's",
            "Each link is for one person. Ask for your own in the chat.",
        ),
    ),
    (
        BrowserMismatch,
        ErrorPage(
            403,
            "This sign-in was begun elsewhere",
            "Open the link and sign in within one browser that takes cookies; if you "
            "did not open a link yourself, close this window.",
        ),
    ),
    (AuthServerRefused, ErrorPage(502, "The provider refused", REQUEST_NEW_LINK)),
    (AuthServerTimedOut, ErrorPage(504, "The provider takes too long", RETRY_LATER)),
    (
        AuthServerUnreachable,
        ErrorPage(502, "The provider cannot be reached", RETRY_LATER),
    ),
    (
        SignInFailed,
        ErrorPage(
            502,
            "The provider's answer makes no sense",
            f"{REQUEST_NEW_LINK} {CONTACT_OPERATOR}",
        ),
    ),
    (
        SecretsInvalid,
        ErrorPage(503, "This server cannot keep secrets now", CONTACT_OPERATOR),
    ),
    (
        Unavailable,
        ErrorPage(503, "This server is not ready", f"{RETRY_LATER} {CONTACT_OPERATOR}"),
    ),
    (Invalid, ErrorPage(400, "The request is not valid", REQUEST_NEW_LINK)),
]

CONSENT_DECLINED = ErrorPage(
    403,
    "You did not allow it",
    "To connect after all, go back to the chat and ask for a new link.",
)


def error_page_of(exc: CoulisseError, *, is_link_used: bool) -> ErrorPage:
    """Return the page of an error; it never offers a used link again."""
    if isinstance(exc, AuthServerRefused) and exc.error == "access_denied":
        return CONSENT_DECLINED
    found = next(
        (each for family, each in ERROR_PAGES if isinstance(exc, family)), None
    )
    if found is None:
        status = errors.error_shape(exc).status
        return ErrorPage(
            status, "Something went wrong", f"{REQUEST_NEW_LINK} {CONTACT_OPERATOR}"
        )
    if isinstance(exc, AuthServerRefused):
        return replace(found, detail=exc.description)
    if is_link_used:
        return replace(
            found, remedy=found.remedy.replace(RETRY_LATER, REQUEST_NEW_LINK_LATER)
        )
    return found
