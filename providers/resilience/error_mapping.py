"""Map provider failures to this project's errors.

The only place that converts external exceptions, HTTP statuses and error objects.
Messages have our own wording; they quote a provider's text only if clients can act on
it, with possible keys masked. Otherwise the text is in `detail`.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import orjson
from aiohttp.http_exceptions import HttpProcessingError

from core.errors import CoulisseError
from core.text import redaction
from providers.config import ProviderConfig
from providers.errors import (
    CONTEXT_TOO_LONG,
    BrokenReply,
    ContentFiltered,
    KeyRefused,
    ModelUnknown,
    OutOfCredit,
    Overloaded,
    ProviderDisconnected,
    RateLimited,
    RequestRefused,
    TimedOut,
    Unreachable,
    WaitPhase,
)
from providers.resilience import error_objects
from providers.resilience.backoff import parse_retry_after
from providers.resilience.error_objects import ErrorObject

E = TypeVar("E", bound=CoulisseError)

TRANSPORT_ERRORS = (
    aiohttp.ClientError,
    HttpProcessingError,
    OSError,
    EOFError,
    UnicodeError,
    orjson.JSONDecodeError,
)
"""All exceptions of transport and decoding; `from_exception` handles each."""

PARSE_ERRORS = (AttributeError, LookupError, TypeError, ValueError)
"""Exceptions from reading JSON of an unexpected shape, such as a number for an object.
"""

MAX_REPLY_BYTES = 64 * 1024 * 1024
"""The maximum bytes of one reply, far above real replies: the longest, streamed with
300 bytes around each of 128,000 tokens, has about 40 MB."""
MAX_MESSAGE_CHARS = 600

NOT_ALLOWED = {"permission_error", "PERMISSION_DENIED"}
NO_CREDIT = {"insufficient_quota", "insufficient_balance", "billing_error"}
BAD_KEY = {"invalid_api_key", "authentication_error", "permission_error"}
RATE_LIMIT_CODES = {"rate_limit_error", "rate_limit_exceeded", "requests", "tokens"}
REFUSAL_CODES = {"invalid_request_error", "request_too_large"}
REFUSAL_CODES |= {CONTEXT_TOO_LONG}


@dataclass(frozen=True, slots=True)
class ProviderSource:
    """The provider an error is about."""

    name: str
    provider: ProviderConfig
    model: str = ""
    embedder_section: str | None = None
    """The YAML section with its key and address, if not `providers:`."""
    endpoint: int | None = None
    """The index in the entry's `endpoints`, if it has any."""

    def setting(self, field: str) -> str:
        """Return the YAML path of one of its settings."""
        path = self.embedder_section or f"providers.{self.name}"
        if self.endpoint is not None:
            own = self.provider.endpoints[self.endpoint]
            if getattr(own, field, None) is not None:
                path += f".endpoints[{self.endpoint}]"
        return f"{path}.{field}"


def sanitize_message(text: str) -> str:
    """Return a provider's text as one short line, with possible keys masked."""
    return redaction.redact_quoted_line(text, MAX_MESSAGE_CHARS)


def from_status(
    source: ProviderSource, status: int, headers: Mapping[str, str], body: bytes
) -> CoulisseError:
    """Return the error for an HTTP status outside 2xx."""
    try:
        reported = error_objects.parse_error(orjson.loads(body))
    except orjson.JSONDecodeError:
        reported = ErrorObject()
    if reported.is_filtered:
        return _filtered(source, reported, f"HTTP {status}")
    if 300 <= status < 400:
        text = f"answered with a redirect (HTTP {status})"
        detail = f"set {source.setting('base_url')} to the new address"
        return _error(BrokenReply, source, text, detail)
    if status in (401, 403):
        return _key_refused(source, is_invalid=status == 401)
    if status == 402:
        return _out_of_credit(source)
    if status in (404, 405, 410):
        return _model_unknown(source, reported)
    if status == 429:
        return _limited(source, reported, parse_retry_after(headers))
    if status >= 500 or status in (408, 409, 425):
        seconds = parse_retry_after(headers)
        return _overloaded(source, reported, f"HTTP {status}", seconds)
    return _refused(source, reported, f"HTTP {status}")


def from_error_object(source: ProviderSource, payload: Any) -> CoulisseError:
    """Return the error a provider reports inside a reply that began well."""
    reported = error_objects.parse_error(payload)
    identifiers = reported.identifiers
    if reported.is_filtered:
        return _filtered(source, reported, "in its reply")
    if identifiers & (BAD_KEY | {"UNAUTHENTICATED", "PERMISSION_DENIED"}):
        return _key_refused(source, is_invalid=not identifiers & NOT_ALLOWED)
    if identifiers & NO_CREDIT:
        return _out_of_credit(source)
    if identifiers & (RATE_LIMIT_CODES | {"RESOURCE_EXHAUSTED"}):
        return _limited(source, reported, None)
    if identifiers & REFUSAL_CODES:
        return _refused(source, reported, "in its reply")
    return _overloaded(source, reported, "in its reply", None)


def _error(
    kind: Callable[..., E], source: ProviderSource, text: str, detail: str = ""
) -> E:
    message = f"provider '{source.name}' {text}"
    return kind(message, provider=source.name, detail=detail)


def _error_suffix(reported: ErrorObject) -> str:
    message = sanitize_message(reported.message)
    return f": {message}" if message else ""


def _error_detail(reported: ErrorObject) -> str:
    message = sanitize_message(reported.message)
    return f"its message: {message}" if message else ""


def _key_refused(source: ProviderSource, *, is_invalid: bool) -> KeyRefused:
    # Never the provider's own message: it often quotes the key.
    detail = f"check {source.setting('api_key')} and the permissions of that key"
    error = _error(KeyRefused, source, "refused this server's key", detail)
    error.is_invalid = is_invalid
    return error


def _out_of_credit(source: ProviderSource) -> OutOfCredit:
    text = "has no credit or quota left for this server"
    detail = f"check the account of {source.setting('api_key')}"
    return _error(OutOfCredit, source, text, detail)


def _model_unknown(source: ProviderSource, reported: ErrorObject) -> ModelUnknown:
    detail = f"check the model and {source.setting('base_url')}"
    text = f"has no model '{source.model}'"
    return _error(ModelUnknown, source, text, f"{detail}{_error_suffix(reported)}")


def _limited(
    source: ProviderSource, reported: ErrorObject, wait_seconds: float | None
) -> RateLimited | OutOfCredit:
    if reported.identifiers & NO_CREDIT:
        return _out_of_credit(source)
    return RateLimited(
        f"the rate limit of provider '{source.name}' is exceeded",
        provider=source.name,
        retry_after_seconds=wait_seconds,
        detail=_error_detail(reported),
    )


def _overloaded(
    source: ProviderSource,
    reported: ErrorObject,
    where: str,
    wait_seconds: float | None,
) -> Overloaded:
    error = _error(Overloaded, source, f"failed ({where})", _error_detail(reported))
    error.retry_after_seconds = wait_seconds
    return error


def _refused(
    source: ProviderSource, reported: ErrorObject, where: str
) -> CoulisseError:
    # Gemini answers a wrong key with 400.
    if reported.identifiers & BAD_KEY or "API key not valid" in reported.message:
        return _key_refused(source, is_invalid=not reported.identifiers & NOT_ALLOWED)
    return RequestRefused(
        f"provider '{source.name}' refused the request ({where})"
        f"{_error_suffix(reported)}",
        provider=source.name,
        param=sanitize_message(reported.param) if reported.param else None,
        code=_refusal_code(reported),
    )


def _filtered(
    source: ProviderSource, reported: ErrorObject, where: str
) -> ContentFiltered:
    return ContentFiltered(
        f"the content filter of provider '{source.name}' refused the request "
        f"({where}){_error_suffix(reported)}",
        provider=source.name,
        param=sanitize_message(reported.param) if reported.param else None,
    )


def _refusal_code(reported: ErrorObject) -> str | None:
    """Return the provider's code; only OpenAI has one for too long a prompt."""
    too_long = "prompt is too long", "maximum context length", "context window"
    if reported.code is None and any(text in reported.message for text in too_long):
        return CONTEXT_TOO_LONG
    return sanitize_message(reported.code) if reported.code else None


def malformed_reply(
    source: ProviderSource, problem: str, *, detail: str = ""
) -> BrokenReply:
    return _error(BrokenReply, source, f"sent a reply that {problem}", detail)


def check_size(source: ProviderSource, size: int) -> None:
    """Raise `BrokenReply` for a reply over the size limit."""
    if size > MAX_REPLY_BYTES:
        raise malformed_reply(source, f"is longer than {MAX_REPLY_BYTES / 2**20:g} MiB")


def from_exception(source: ProviderSource, exc: BaseException) -> CoulisseError:
    """Return the error for any of `TRANSPORT_ERRORS` or `PARSE_ERRORS`."""
    if isinstance(exc, (orjson.JSONDecodeError, UnicodeDecodeError)):
        return malformed_reply(source, "is not valid JSON")
    if isinstance(exc, aiohttp.ConnectionTimeoutError):
        seconds = source.provider.timeouts.connect_seconds
        return timeout_error(source, "connect", seconds)
    if isinstance(exc, _TLS):
        return _unreachable(source, "TLS failed", exc, retryable=False)
    if isinstance(exc, (aiohttp.InvalidURL, UnicodeError)):
        return _unreachable(source, "its address is not valid", exc, retryable=False)
    if isinstance(exc, _NO_CONNECTION):
        return _unreachable(source, "no connection", exc, retryable=True)
    if isinstance(exc, _NOT_HTTP):
        return malformed_reply(source, "is not valid HTTP")
    if isinstance(exc, PARSE_ERRORS):
        return malformed_reply(source, "has an unknown format")
    return _error(ProviderDisconnected, source, "broke the connection")


_TLS = (aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch, ssl.SSLError)
_NO_CONNECTION = (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError)
_NOT_HTTP = (aiohttp.ClientResponseError, HttpProcessingError)


def _unreachable(
    source: ProviderSource, problem: str, exc: BaseException, *, retryable: bool
) -> Unreachable:
    reason = " ".join(str(exc)[:MAX_MESSAGE_CHARS].split())
    remedy = f"check {source.setting('base_url')} and the network"
    detail = f"{reason}; {remedy}" if reason else remedy
    error = _error(Unreachable, source, f"cannot be reached: {problem}", detail)
    error.retryable = retryable
    return error


def from_send_error(source: ProviderSource, exc: ValueError) -> CoulisseError:
    """Return the error for a request the client library will not send."""
    if isinstance(exc, TRANSPORT_ERRORS):
        return from_exception(source, exc)
    return _unreachable(source, "the request cannot be sent", exc, retryable=False)


WAITS: dict[WaitPhase, str] = {
    "connect": "to accept a connection",
    "first_token": "to begin its reply",
    "idle": "to continue its reply",
    "total": "to finish its reply",
}


def timeout_error(source: ProviderSource, wait: WaitPhase, seconds: float) -> TimedOut:
    setting = source.setting(f"timeouts.{wait}_seconds")
    text = f"took longer than {seconds:g} s {WAITS[wait]}"
    detail = setting if source.embedder_section is None else ""
    error = _error(TimedOut, source, text, detail)
    error.wait, error.seconds = wait, seconds
    # A provider that was too slow for one token would be slow again.
    error.retryable = wait == "connect"
    return error
