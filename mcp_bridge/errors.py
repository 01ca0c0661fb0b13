"""Errors between this server and an MCP server.

Upstream
└── ServerFailed
    ├── ServerUnreachable  no session: no such command, no connection, no handshake
    │   └── StillConnecting  not yet open; slower than the caller's timeout
    ├── ServerGone         the session ended: a crash, a broken connection
    ├── ServerSlow         a call took longer than `timeout_seconds`
    ├── ServerReplyInvalid a malformed answer, or one over the size limit
    ├── CallRefused        the server would not make the call
    ├── ToolFailed         the tool ran and says it failed
    └── SignInNeeded       the server wants this user to sign in, or to do so again

The model reads the messages, so they hold no address, no argument and no secret.
"""

from collections.abc import Sequence

from core.errors import Upstream


class ServerFailed(Upstream):
    """The MCP server failed."""

    code = "mcp_server_failed"

    def __init__(
        self, message: str | None = None, *, server: str = "", detail: str = ""
    ) -> None:
        super().__init__(message, provider=server, detail=detail)
        self.server = server
        self.last_lines: Sequence[str] = ()
        """The last lines it printed, only for operators; without secrets."""


class ServerUnreachable(ServerFailed):
    """The MCP server cannot be reached."""

    code = "mcp_server_unreachable"


class StillConnecting(ServerUnreachable):
    """The MCP server is still being connected to."""


class ServerGone(ServerFailed):
    """The session with the MCP server ended."""

    code = "mcp_server_gone"

    def __init__(
        self,
        message: str | None = None,
        *,
        server: str = "",
        was_unheard: bool = False,
        detail: str = "",
    ) -> None:
        super().__init__(message, server=server, detail=detail)
        self.was_unheard = was_unheard
        """Whether the server certainly did not start the call, so it may be repeated.
        """


class ServerSlow(ServerFailed):
    """The MCP server takes too long."""

    code = "mcp_server_slow"


class ServerReplyInvalid(ServerFailed):
    """The MCP server's answer makes no sense."""

    code = "mcp_server_confused"


class CallRefused(ServerFailed):
    """The MCP server refused the call."""

    code = "mcp_call_refused"


class ToolFailed(ServerFailed):
    """The tool failed."""

    code = "mcp_tool_failed"


class SignInNeeded(ServerFailed):
    """The MCP server wants the user to sign in."""

    code = "mcp_sign_in_needed"
