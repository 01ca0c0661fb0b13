"""Errors between this server and an MCP server.

Upstream
└── ServerFailed
    ├── ServerUnreachable  no session: no such command, no connection, no handshake
    │   └── StillConnecting  not yet open; slower than the caller's timeout
    ├── ServerGone         the session ended: a crash, a broken connection
    ├── ServerSlow         a call took longer than `timeout_seconds`
    ├── ServerReplyInvalid a malformed response, or one over the size limit
    ├── CallRefused        the server refused the call
    ├── ToolFailed         the tool ran and reported a failure
    └── SignInNeeded       the user must sign in to the server, or sign in again

The model reads the messages, so they contain no address, no argument and no secret.
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
        """Its last lines of output, without secrets; only for operators."""


class ServerUnreachable(ServerFailed):
    """The MCP server cannot be reached."""

    code = "mcp_server_unreachable"


class StillConnecting(ServerUnreachable):
    """The connection to the MCP server is not open yet."""


class ServerGone(ServerFailed):
    """The session with the MCP server ended."""

    code = "mcp_server_gone"

    def __init__(
        self,
        message: str | None = None,
        *,
        server: str = "",
        is_safe_to_retry: bool = False,
        detail: str = "",
    ) -> None:
        super().__init__(message, server=server, detail=detail)
        self.is_safe_to_retry = is_safe_to_retry
        """Whether the server certainly did not start the call."""


class ServerSlow(ServerFailed):
    """The MCP server did not answer in time."""

    code = "mcp_server_slow"


class ServerReplyInvalid(ServerFailed):
    """The MCP server's response is malformed."""

    code = "mcp_server_reply_invalid"


class CallRefused(ServerFailed):
    """The MCP server refused the call."""

    code = "mcp_call_refused"


class ToolFailed(ServerFailed):
    """The tool failed."""

    code = "mcp_tool_failed"


class SignInNeeded(ServerFailed):
    """The MCP server requires the user to sign in."""

    code = "mcp_sign_in_needed"
