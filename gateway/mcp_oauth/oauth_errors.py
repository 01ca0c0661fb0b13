"""What a user is told who cannot be signed in: one table."""

from dataclasses import dataclass, replace

from config.errors import SecretsInvalid
from core.errors import CoulisseError, Invalid, Unavailable
from gateway import errors
from mcp_bridge.oauth.errors import (
    NoSignIn,
    OtherBrowser,
    OtherUser,
    ProviderDown,
    ProviderRefused,
    ProviderSlow,
    ServerUnknown,
    SignInFailed,
    TokenExpired,
    TokenInvalid,
    TokenUsed,
)

ANEW = "Go back to the chat and ask for a new link."
LATER = "Wait a moment, then open the link again or ask for a new one."
LATER_ANEW = "Wait a moment, then go back to the chat and ask for a new link."
OPERATOR = "Tell whoever runs this server; its log says more."


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that goes wrong, as its page tells it."""

    status: int
    title: str
    remedy: str
    detail: str = ""
    """The provider's own words."""


TABLE: list[tuple[type[CoulisseError], Problem]] = [
    # The more particular first.
    (ServerUnknown, Problem(404, "This server does not know it", ANEW)),
    (NoSignIn, Problem(404, "It needs no sign-in", "Go back to the chat and use it.")),
    (TokenExpired, Problem(410, "This link has expired", ANEW)),
    (
        TokenUsed,
        Problem(
            410,
            "This link was used already",
            "If you have just connected, all is well: go back to the chat. If not, "
            "ask there for a new link.",
        ),
    ),
    (TokenInvalid, Problem(400, "This link is not valid", ANEW)),
    (
        OtherUser,
        Problem(
            403,
            "This link is another user's",
            "Each link is for one person. Ask for your own in the chat.",
        ),
    ),
    (
        OtherBrowser,
        Problem(
            403,
            "This sign-in was begun elsewhere",
            "Open the link and sign in within one browser that takes cookies; if you "
            "did not open a link yourself, close this window.",
        ),
    ),
    (ProviderRefused, Problem(502, "The provider refused", ANEW)),
    (ProviderSlow, Problem(504, "The provider takes too long", LATER)),
    (ProviderDown, Problem(502, "The provider cannot be reached", LATER)),
    (
        SignInFailed,
        Problem(502, "The provider's answer makes no sense", f"{ANEW} {OPERATOR}"),
    ),
    (SecretsInvalid, Problem(503, "This server cannot keep secrets now", OPERATOR)),
    (Unavailable, Problem(503, "This server is not ready", f"{LATER} {OPERATOR}")),
    (Invalid, Problem(400, "The request is not valid", ANEW)),
]

DECLINED = Problem(
    403,
    "You did not allow it",
    "To connect after all, go back to the chat and ask for a new link.",
)


def problem_of(exc: CoulisseError, *, is_link_used: bool) -> Problem:
    """Return how a page tells an error; a used link is not to be opened again."""
    if isinstance(exc, ProviderRefused) and exc.error == "access_denied":
        return DECLINED
    found = next((each for family, each in TABLE if isinstance(exc, family)), None)
    if found is None:
        status = errors.kind_of(exc).status
        return Problem(status, "Something went wrong", f"{ANEW} {OPERATOR}")
    if isinstance(exc, ProviderRefused):
        return replace(found, detail=exc.description)
    if is_link_used:
        return replace(found, remedy=found.remedy.replace(LATER, LATER_ANEW))
    return found
