"""What an exception of the SDK's says, in our words."""

import logging

import anyio
import httpx2
import mcp_types
from mcp import MCPError
from pydantic import ValidationError

from core.text import redaction
from mcp_bridge.client import http_client
from mcp_bridge.client.http_client import Exchange
from mcp_bridge.client.target import Address
from mcp_bridge.errors import CallRefused, ServerConfused, ServerFailed, SignInNeeded

logger = logging.getLogger(__name__)

MAX_REFUSAL_LENGTH = 2000

STAND_INS = {mcp_types.INTERNAL_ERROR, mcp_types.INVALID_REQUEST, -32000}
"""Codes of the SDK's own for answers of HTTP that said nothing."""

NOT_READ = "Failed to parse "
"""How the SDK begins what it says of an answer it cannot read: pages of its own."""

CLOSED = ("Connection closed", "SSE stream ")
"""How the SDK begins what it says of a connection that ended. It does so under a code
that many servers use for failures of their own, which end nothing."""


def of(
    kind: type[ServerFailed], address: Address, says: str, *, detail: str = ""
) -> ServerFailed:
    """Return an error that names the server."""
    message = f"the MCP server '{address.name}' {says}"
    return kind(message, server=address.name, detail=detail)


def meaning(exc: Exception, exchange: Exchange, address: Address) -> ServerFailed:
    """Return what failed, where the session goes on."""
    if exchange.is_too_large:
        size = http_client.MAX_ANSWER_BYTES // 1024**2
        return of(ServerConfused, address, f"answered with more than {size} MB")
    status = status_of(exc, exchange)
    if status is not None:
        return _of_status(status, exc, address)
    if isinstance(exc, MCPError) and not exc.message.startswith(NOT_READ):
        return _refusal(exc, address)
    if isinstance(exc, MCPError | ValidationError):
        return of(ServerConfused, address, "gave an answer that makes no sense")
    logger.warning("mcp server '%s': %r", address.name, exc)
    return of(ServerConfused, address, "does not keep to the protocol")


def status_of(exc: Exception, exchange: Exchange) -> int | None:
    """Return the status of HTTP the server refused with, if it did."""
    if exchange.status is None and isinstance(exc, httpx2.HTTPStatusError):
        return exc.response.status_code
    return exchange.status


def _of_status(status: int, exc: Exception, address: Address) -> ServerFailed:
    if status == 401 and address.server.sign_in is not None:
        return of(SignInNeeded, address, "wants the user to sign in again")
    if status == 401:
        return of(
            CallRefused,
            address,
            "wants users to sign in (status 401)",
            detail="set oauth: for it, or give its key another way",
        )
    if status == 404:
        says = "answered with status 404"
        return of(CallRefused, address, says, detail="check its url")
    if isinstance(exc, MCPError) and exc.code not in STAND_INS:
        return _refusal(exc, address)
    if 300 <= status < 400:
        says = f"sends us elsewhere (status {status})"
        return of(CallRefused, address, says, detail="check its url")
    return of(CallRefused, address, f"answered with status {status}")


def _refusal(exc: MCPError, address: Address) -> ServerFailed:
    said = redaction.quoted_line(exc.message, MAX_REFUSAL_LENGTH)
    return of(CallRefused, address, f"refused: {said}")


def is_closed(exc: BaseException) -> bool:
    """Return whether an exception says that the connection ended."""
    if isinstance(exc, MCPError):
        is_of_closing = exc.code == mcp_types.CONNECTION_CLOSED
        return is_of_closing and exc.message.startswith(CLOSED)
    return isinstance(exc, anyio.BrokenResourceError | anyio.ClosedResourceError)


def cause(exc: BaseException) -> Exception:
    """Return the first real exception in what groups of tasks raise."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc if isinstance(exc, Exception) else RuntimeError(repr(exc))
