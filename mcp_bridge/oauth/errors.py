"""Errors of sign-ins to MCP servers."""

import inspect

from core.errors import Denied, Invalid, NotFound
from mcp_bridge.errors import ServerFailed


class ServerUnknown(NotFound):
    """There is no such MCP server."""

    code = "mcp_server_unknown"


class SignInUnsupported(Invalid):
    """This MCP server has no sign-in."""

    code = "mcp_no_sign_in"


class LinkInvalid(Invalid):
    """This is not a link of this server's: it is incomplete, was altered, or was made \
with a key this server no longer has."""

    code = "link_invalid"


class LinkExpired(Invalid):
    """This link has expired: links are good for 10 minutes."""

    code = "link_expired"


class LinkUsed(Invalid):
    """This link was used already: each is good for one time."""

    code = "link_used"


class UserMismatch(Denied):
    """This link is another user's."""

    code = "link_of_another_user"


class BrowserMismatch(Denied):
    """This sign-in was not begun in this browser."""

    code = "other_browser"


class SignInFailed(ServerFailed):
    """The provider of a sign-in failed."""

    code = "sign_in_failed"

    def __init__(self, detail: str = "", *, provider: str = "") -> None:
        says = inspect.cleandoc(type(self).__doc__ or "").rstrip(".")
        message = f"mcp server '{provider}': {says[:1].lower()}{says[1:]}"
        super().__init__(message, server=provider, detail=detail)


class AuthServerUnreachable(SignInFailed):
    """The provider of a sign-in cannot be reached."""

    code = "sign_in_provider_down"


class AuthServerTimedOut(AuthServerUnreachable):
    """The provider of a sign-in takes too long."""

    code = "sign_in_provider_slow"


class AuthServerReplyInvalid(SignInFailed):
    """The provider of a sign-in answered what makes no sense."""

    code = "sign_in_provider_broken"


class AuthServerRefused(SignInFailed):
    """The provider of a sign-in said no."""

    code = "sign_in_refused"

    def __init__(
        self, detail: str, *, error: str, description: str = "", provider: str = ""
    ) -> None:
        super().__init__(detail, provider=provider)
        self.error = error
        """OAuth's error code, such as `invalid_grant`."""
        self.description = description
        """The provider's description for users."""
