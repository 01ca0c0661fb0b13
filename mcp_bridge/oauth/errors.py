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
    """This link is invalid: it is incomplete or altered, or the server's key has \
changed."""

    code = "link_invalid"


class LinkExpired(Invalid):
    """This link has expired: links are valid for 10 minutes."""

    code = "link_expired"


class LinkUsed(Invalid):
    """This link was already used: each link works once."""

    code = "link_used"


class UserMismatch(Denied):
    """This link belongs to another user."""

    code = "link_of_another_user"


class BrowserMismatch(Denied):
    """This sign-in was started in another browser."""

    code = "other_browser"


class SignInFailed(ServerFailed):
    """The sign-in provider failed."""

    code = "sign_in_failed"

    def __init__(self, server: str, detail: str) -> None:
        text = inspect.cleandoc(type(self).__doc__ or "").rstrip(".")
        message = f"mcp server '{server}': {text[:1].lower()}{text[1:]}"
        super().__init__(message, server=server, detail=detail)


class AuthServerUnreachable(SignInFailed):
    """The sign-in provider cannot be reached."""

    code = "sign_in_provider_down"


class AuthServerTimedOut(AuthServerUnreachable):
    """The sign-in provider did not answer in time."""

    code = "sign_in_provider_slow"


class AuthServerReplyInvalid(SignInFailed):
    """The sign-in provider sent an invalid reply."""

    code = "sign_in_provider_broken"


class AuthServerRefused(SignInFailed):
    """The sign-in provider refused the request."""

    code = "sign_in_refused"

    def __init__(
        self, server: str, detail: str, *, error: str, description: str
    ) -> None:
        super().__init__(server, detail)
        self.error = error
        """OAuth's error code, such as `invalid_grant`."""
        self.description = description
        """The provider's description for users."""
