"""Every exception of transport and parsing maps to one of our errors."""

import asyncio
import errno
import inspect
import socket
import ssl

import aiohttp
import orjson
import pytest
from aiohttp import http_exceptions
from aiohttp.client_exceptions import UnixClientConnectorError
from aiohttp.client_reqrep import ConnectionKey, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import SecretStr
from yarl import URL

from providers.config import ProviderConfig
from providers.errors import (
    BrokenReply,
    LocalModelDown,
    ProviderDisconnected,
    ProviderFailed,
    RequestRefused,
    TimedOut,
    Unreachable,
)
from providers.resilience import error_mapping
from providers.resilience.error_mapping import ProviderSource
from tests.providers.conftest import collect_events

SECRET = "sk-very-secret-0123456789"
TEAM_KEY = "q7Vd2mXw9Lr4TzK8bNf3HcYs"
TEAM = f"Token {TEAM_KEY}"
ACME = ProviderConfig(
    kind="openai",
    api_key=SECRET,
    base_url="http://127.0.0.1:1/v1",
    headers={"X-Team": TEAM},
)
SOURCE = ProviderSource("acme", ACME, "the-model")


def family(root: type[BaseException]) -> set[type[BaseException]]:
    return {root}.union(*(family(child) for child in root.__subclasses__()))


def headers() -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict({"Authorization": f"Bearer {SECRET}"}))


KEY = ConnectionKey("model.test", 443, True, True, None, None, None)
REQUEST = RequestInfo(URL("http://model.test"), "POST", headers())


# Factories of the errors; the first match is used.
EXAMPLES = [
    (
        aiohttp.ClientConnectorCertificateError,
        (KEY, ssl.SSLCertVerificationError("self-signed")),
    ),
    (UnixClientConnectorError, ("/tmp/socket", KEY, OSError(errno.ENOENT, "gone"))),
    (aiohttp.ClientConnectorError, (KEY, OSError(errno.ECONNREFUSED, "refused"))),
    (aiohttp.ServerFingerprintMismatch, (b"a", b"b", "model.test", 443)),
    (aiohttp.ClientResponseError, (REQUEST, ())),
    (aiohttp.InvalidURL, ("http://", "no host")),
    (aiohttp.ClientError, ("odd",)),
    (http_exceptions.LineTooLong, (b"line", 10)),
    (http_exceptions.InvalidHeader, (b"header",)),
    (http_exceptions.BadHttpMethod, ("SEND",)),
    (http_exceptions.BadStatusLine, ("odd",)),
    (http_exceptions.BadHttpMessage, ("odd",)),
    (http_exceptions.HttpProcessingError, ()),
    (UnicodeDecodeError, ("utf-8", b"\xff", 0, 1, "bad")),
    (UnicodeEncodeError, ("idna", "x", 0, 1, "bad")),
    (orjson.JSONDecodeError, ("bad", "{", 0)),
    (asyncio.IncompleteReadError, (b"", 1)),
    (OSError, (errno.EIO, f"broken while sending {SECRET}")),
]


def example(kind: type[BaseException]) -> BaseException:
    factories = (make for parent, make in EXAMPLES if issubclass(kind, parent))
    return kind(*next(factories, ("odd",)))


FAMILIES = {
    aiohttp.ClientError,
    http_exceptions.HttpProcessingError,
    http_exceptions.PayloadEncodingError,
    ConnectionError,
    TimeoutError,
    socket.gaierror,
    ssl.SSLError,
    asyncio.IncompleteReadError,
    orjson.JSONDecodeError,
    UnicodeDecodeError,
    UnicodeEncodeError,
}
FOREIGN = sorted(
    {
        kind
        for root in FAMILIES
        for kind in family(root)
        if kind.__module__.startswith(
            ("aiohttp", "builtins", "ssl", "socket", "asyncio")
        )
        or root is orjson.JSONDecodeError
    },
    key=lambda kind: (kind.__module__, kind.__qualname__),
)


@pytest.mark.parametrize("kind", FOREIGN, ids=lambda kind: kind.__qualname__)
def test_every_transport_exception_is_mapped(kind):
    exc = example(kind)
    assert isinstance(exc, error_mapping.TRANSPORT_ERRORS)
    error = error_mapping.from_exception(SOURCE, exc)
    assert isinstance(error, ProviderFailed)
    assert error.provider == "acme"
    assert "acme" in error.message
    assert SECRET not in error.message


def test_aiohttp_client_errors_are_all_mapped():
    client_errors = {
        kind
        for _, kind in inspect.getmembers(aiohttp, inspect.isclass)
        if issubclass(kind, aiohttp.ClientError)
    }
    assert client_errors <= set(FOREIGN)


@pytest.mark.parametrize(
    ("kind", "expected", "retryable"),
    [
        (aiohttp.ClientConnectorError, Unreachable, True),
        (aiohttp.ClientConnectorDNSError, Unreachable, True),
        (aiohttp.ClientConnectorCertificateError, Unreachable, False),
        (aiohttp.InvalidURL, Unreachable, False),
        (aiohttp.ConnectionTimeoutError, TimedOut, True),
        (aiohttp.ServerDisconnectedError, ProviderDisconnected, True),
        (aiohttp.ClientPayloadError, ProviderDisconnected, True),
        (ConnectionResetError, ProviderDisconnected, True),
        (aiohttp.ClientResponseError, BrokenReply, False),
        (http_exceptions.BadStatusLine, BrokenReply, False),
        (orjson.JSONDecodeError, BrokenReply, False),
    ],
)
def test_exceptions_map_to_specific_errors(kind, expected, retryable: bool):
    error = error_mapping.from_exception(SOURCE, example(kind))
    assert type(error) is expected
    assert error.retryable is retryable


@pytest.mark.parametrize(
    "fields",
    [
        {"api_key": SecretStr(f"{SECRET}\nX-Two: b")},
        {"base_url": "http://ada:hush@127.0.0.1:1/v1"},
        {"base_url": "http://[127.0.0.1/v1"},
        {"base_url": "http://127.0.0.1:99999/v1"},
    ],
    ids=repr,
)
async def test_unsendable_request_is_a_coulisse_error(fake, fields):
    # Past what the configuration refuses.
    provider = fake.provider(retries=0).model_copy(update=fields)
    with pytest.raises(Unreachable) as caught:
        await collect_events(provider)
    assert caught.value.retryable is False
    assert SECRET not in caught.value.message
    assert "hush" not in caught.value.message


@pytest.mark.parametrize(
    "kind", [RequestRefused, LocalModelDown, *sorted(family(ProviderFailed), key=str)]
)
def test_every_error_has_a_retryable_flag(kind):
    assert isinstance(kind("odd").retryable, bool)
