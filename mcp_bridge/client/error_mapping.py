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
    kind: type[ServerFailed], address: ServerTarget, says: str, *, detail: str = ""
) -> ServerFailed:
    """Return an error that names the server."""
    message = f"the MCP server '{address.name}' {says}"
    return kind(message, server=address.name, detail=detail)


def from_exception(
    exc: Exception, exchange: HttpOutcome, address: ServerTarget
) -> ServerFailed:
    """Return the error for a failure that does not end the session."""
    if exchange.is_too_large:
        size = http_client.MAX_ANSWER_BYTES // 1024**2
        return server_error(
            ServerReplyInvalid, address, f"answered with more than {size} MB"
        )
    status = status_of(exc, exchange)
    if status is not None:
        return _from_status(status, exc, address)
    if isinstance(exc, MCPError) and not exc.message.startswith(UNREADABLE_PREFIX):
        return _call_refused(exc, address)
    if isinstance(exc, MCPError | ValidationError):
        return server_error(ServerReplyInvalid, address, "sent a malformed answer")
    logger.warning("mcp server '%s': %r", address.name, exc)
    return server_error(ServerReplyInvalid, address, "violated the protocol")


def status_of(exc: Exception, exchange: HttpOutcome) -> int | None:
    """Return the HTTP status of a refusal, if any."""
    if exchange.status is None and isinstance(exc, httpx2.HTTPStatusError):
        return exc.response.status_code
    return exchange.status


def _from_status(status: int, exc: Exception, address: ServerTarget) -> ServerFailed:
    if status == 401 and address.server.sign_in is not None:
        return server_error(SignInNeeded, address, "requires the user to sign in again")
    if status == 401:
        return server_error(
            CallRefused,
            address,
            "requires users to sign in (status 401)",
            detail="set oauth: or the key under headers:",
        )
    if status == 404:
        says = "answered with status 404"
        return server_error(CallRefused, address, says, detail="check its url")
    if isinstance(exc, MCPError) and exc.code not in SDK_PLACEHOLDER_CODES:
        return _call_refused(exc, address)
    if 300 <= status < 400:
        says = f"answered with a redirect (status {status})"
        return server_error(CallRefused, address, says, detail="check its url")
    return server_error(CallRefused, address, f"answered with status {status}")


def _call_refused(exc: MCPError, address: ServerTarget) -> ServerFailed:
    text = redaction.redact_quoted_line(exc.message, MAX_REFUSAL_LENGTH)
    return server_error(CallRefused, address, f"refused the call: {text}")


def is_closed(exc: BaseException) -> bool:
    """Return whether an exception means a closed connection."""
    if isinstance(exc, MCPError):
        is_of_closing = exc.code == mcp_types.CONNECTION_CLOSED
        return is_of_closing and exc.message.startswith(CLOSED_PREFIXES)
    return isinstance(exc, anyio.BrokenResourceError | anyio.ClosedResourceError)


def root_cause(exc: BaseException) -> Exception:
    """Return the first exception in (nested) exception groups."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc if isinstance(exc, Exception) else RuntimeError(repr(exc))
