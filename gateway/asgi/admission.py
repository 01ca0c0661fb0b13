"""Checks before a request's body is read: the credential and the size limit.

If `/v1` requires credentials, the bodies of requests without one are not read.
"""

from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple, cast

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from access.authentication.config import AUTH
from config import live
from config.config import SERVER
from core.errors import CoulisseError, Invalid
from files.config import MEBIBYTE, STORAGE
from files.storage import backends
from gateway import errors, webhooks
from gateway.auth import authentication
from gateway.errors import BodyTooLarge
from gateway.mcp_server import views

SMALL_BODY_BYTES = 64 * 1024
"""The limit of all other paths."""
MCP_PATH = "/mcp"
UPLOAD_PATH = "/v1/files"
FORM_BYTES = 64 * 1024
"""The size of an upload's form without its file, at most."""
UNLIMITED_BYTES = 1 << 62


class BodyLimit(NamedTuple):
    """The largest body that is accepted, in bytes."""

    max_bytes: int
    remedy: str = ""
    """The setting that controls it."""


NO_BODY = BodyLimit(0)


async def admit(request: HttpRequest) -> BodyLimit:
    """Return the body size limit of a request.

    Authenticates requests to `/v1` and `/mcp`; raises what `authenticate` raises, and
    `HookUnknown`.
    """
    path = request.path
    if path.startswith("/v1/") or path == MCP_PATH:
        if live.current().get(AUTH).proxy is not None:
            await authentication.authenticate(request)
        return _upload_limit() if path == UPLOAD_PATH else server_limit()
    if path.startswith("/hooks/"):
        trigger = webhooks.find_webhook(request)
        return BodyLimit(
            min(trigger.max_body_bytes, server_limit().max_bytes),
            "raise this webhook's max_body_bytes",
        )
    return BodyLimit(SMALL_BODY_BYTES)


def body_buffer(scope: dict[str, Any]) -> IO[bytes]:
    """Return where the body of a request is written: an upload goes to the disk."""
    if scope["path"] != UPLOAD_PATH:
        return BytesIO()
    folder = str(backends.upload_folder())
    return cast(IO[bytes], SpooledTemporaryFile(MEBIBYTE, dir=folder))


def _upload_limit() -> BodyLimit:
    largest = live.current().get(STORAGE).largest_file
    return BodyLimit(
        UNLIMITED_BYTES if largest is None else largest + FORM_BYTES,
        "raise storage.max_file_bytes",
    )


def server_limit() -> BodyLimit:
    """Return the limit of `server.max_body_bytes`; raises `ConfigInvalid`."""
    max_bytes = live.current().get(SERVER).max_body_bytes
    return BodyLimit(max_bytes, "raise server.max_body_bytes")


def refuse(request: HttpRequest, error: Exception) -> HttpResponseBase:
    """Return the response to a request whose body is not read."""
    if not isinstance(error, CoulisseError):
        return errors.on_internal_error(request, error)
    is_json_rpc = isinstance(error, BodyTooLarge) or not isinstance(error, Invalid)
    if request.path == MCP_PATH and is_json_rpc:
        errors.log_error(request.method or "", request.path, error)
        return views.credential_error_response(error)
    if request.path.startswith("/hooks/"):
        webhooks.log_refusal(request, error)
    return errors.on_domain_error(request, error)
