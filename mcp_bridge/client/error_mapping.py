"""Map exceptions of the SDK to this app's errors."""

import logging

import anyio
import httpx2
import mcp_types
from mcp import MCPError
from pydantic import ValidationError

from core.text import redaction
from mcp_bridge.client import http_client
from mcp_bridge.client.http_client import HttpOutcome
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.errors import (
    CallRefused,
    ServerFailed,
    ServerReplyInvalid,
    SignInNeeded,
)

logger = logging.getLogger(__name__)

MAX_REFUSAL_LENGTH = 2000

SDK_PLACEHOLDER_CODES = {mcp_types.INTERNAL_ERROR, mcp_types.INVALID_REQUEST, -32000}
"""The SDK's own codes for HTTP responses without an error object."""

UNREADABLE_PREFIX = "Failed to parse "
"""The prefix of the SDK's long messages about unreadable responses."""

CLOSED_PREFIXES = ("Connection closed", "SSE stream ")
"""The prefixes of the SDK's messages about a closed connection. Their error code is
also common for server failures that do not end the session."""


def server_error(
    kind: type[ServerFailed], target: ServerTarget, text: str, *, detail: str = ""
) -> ServerFailed:
    """Return an error that names the server."""
    message = f"the MCP server '{target.name}' {text}"
    return kind(message, server=target.name, detail=detail)


def from_exception(
    exc: Exception, outcome: HttpOutcome, target: ServerTarget
) -> ServerFailed:
    """Return the error for a failure that does not end the session."""
    if outcome.is_too_large:
        size = http_client.MAX_RESPONSE_BYTES // 1024**2
        return server_error(
            ServerReplyInvalid, target, f"answered with more than {size} MB"
        )
    status = status_of(exc, outcome)
    if status is not None:
        return _from_status(status, exc, target)
    if isinstance(exc, MCPError) and not exc.message.startswith(UNREADABLE_PREFIX):
        return _call_refused(exc, target)
    if isinstance(exc, MCPError | ValidationError):
        return server_error(ServerReplyInvalid, target, "sent a malformed response")
    logger.warning("mcp server '%s': %r", target.name, exc)
    return server_error(ServerReplyInvalid, target, "violated the protocol")


def status_of(exc: Exception, outcome: HttpOutcome) -> int | None:
    """Return the HTTP status of a refusal, if any."""
    if outcome.status is None and isinstance(exc, httpx2.HTTPStatusError):
        return exc.response.status_code
    return outcome.status


def _from_status(status: int, exc: Exception, target: ServerTarget) -> ServerFailed:
    if status == 401 and target.server.sign_in is not None:
        return server_error(SignInNeeded, target, "requires the user to sign in again")
    if status == 401:
        return server_error(
            CallRefused,
            target,
            "requires users to sign in (status 401)",
            detail="set oauth: or the key under headers:",
        )
    if status == 404:
        text = "answered with status 404"
        return server_error(CallRefused, target, text, detail="check its url")
    if isinstance(exc, MCPError) and exc.code not in SDK_PLACEHOLDER_CODES:
        return _call_refused(exc, target)
    if 300 <= status < 400:
        text = f"answered with a redirect (status {status})"
        return server_error(CallRefused, target, text, detail="check its url")
    return server_error(CallRefused, target, f"answered with status {status}")


def _call_refused(exc: MCPError, target: ServerTarget) -> ServerFailed:
    text = redaction.redact_quoted_line(exc.message, MAX_REFUSAL_LENGTH)
    return server_error(CallRefused, target, f"refused the call: {text}")


def is_closed(exc: BaseException) -> bool:
    """Return whether an exception means a closed connection."""
    if isinstance(exc, MCPError):
        is_closed_code = exc.code == mcp_types.CONNECTION_CLOSED
        return is_closed_code and exc.message.startswith(CLOSED_PREFIXES)
    return isinstance(exc, anyio.BrokenResourceError | anyio.ClosedResourceError)


def root_cause(exc: BaseException) -> Exception:
    """Return the first exception in (nested) exception groups."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc if isinstance(exc, Exception) else RuntimeError(repr(exc))
