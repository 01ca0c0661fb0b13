"""Faults of providers: the resulting error, the number of tries, the duration.

Over real sockets, on both wires. The gateway's tests cover what clients see and what is
charged; those of the pool cover keys that are refused.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from core.errors import CoulisseError
from core.events import TextDelta
from core.trace import Attempt
from providers import client
from providers.config import ProviderConfig
from providers.errors import (
    BrokenReply,
    OutOfCredit,
    Overloaded,
    ProviderDisconnected,
    RateLimited,
    TimedOut,
    Unreachable,
)
from providers.transport import http_request
from tests.providers import fault_server, faults
from tests.providers.conftest import collect_events, model_request
from tests.providers.fault_server import FaultServer
from tests.providers.faults import FAULTS

KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
STREAMS = pytest.mark.parametrize("stream", [True, False])

WAITS = ("connect", "first_token", "idle", "total")
SHORT_SECONDS = 0.1
LEEWAY_SECONDS = 20.0
"""How late a timeout may be on a busy machine."""


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


def short(wait: str | None = None, seconds: float = SHORT_SECONDS) -> dict[str, float]:
    """Return timeouts; only the given one expires.

    With two short timeouts, a busy machine could reach the other one first.
    """
    return {f"{each}_seconds": seconds if each == wait else 600 for each in WAITS}


def provider_at(url: str, wait: str | None = None, **fields) -> ProviderConfig:
    return ProviderConfig(kind="openai", base_url=url, timeouts=short(wait), **fields)


class Outcome(NamedTuple):
    """The expected outcome if the provider fails the same way every time."""

    error: type[CoulisseError]
    code: str
    requests: int = 1
    """With two retries."""
    received_text: str = ""
    wait: str | None = None
    """The timeout that expired."""
    is_reused: bool = True
    """Whether the connection is reused."""


STREAMED = {
    "429": Outcome(RateLimited, "provider_rate_limited", 3),
    "429 with Retry-After": Outcome(RateLimited, "provider_rate_limited", 3),
    "500": Outcome(Overloaded, "provider_overloaded", 3),
    "503": Outcome(Overloaded, "provider_overloaded", 3),
    "cut stream": Outcome(
        ProviderDisconnected,
        "provider_disconnected",
        received_text="Hello there",
        is_reused=False,
    ),
    "cut stream (Content-Length)": Outcome(
        ProviderDisconnected,
        "provider_disconnected",
        received_text="Hello there",
        is_reused=False,
    ),
    "empty body": Outcome(BrokenReply, "provider_broken_reply"),
    "half a JSON": Outcome(BrokenReply, "provider_broken_reply"),
    "no response": Outcome(
        TimedOut, "provider_timed_out", wait="first_token", is_reused=False
    ),
    "slow first token": Outcome(
        TimedOut, "provider_timed_out", wait="first_token", is_reused=False
    ),
    "stall in mid-stream": Outcome(
        TimedOut,
        "provider_timed_out",
        received_text="Hello there",
        wait="idle",
        is_reused=False,
    ),
    "stream without its end": Outcome(
        BrokenReply, "provider_broken_reply", received_text="Hello there"
    ),
    "wrong content type": Outcome(BrokenReply, "provider_broken_reply"),
}
NEVER = Outcome(TimedOut, "provider_timed_out", wait="total", is_reused=False)
CUT = Outcome(ProviderDisconnected, "provider_disconnected", 3, is_reused=False)
WHOLE = {
    **STREAMED,
    # The reply arrives in one piece, so no text was received.
    "cut stream": CUT,
    "cut stream (Content-Length)": CUT,
    "no response": NEVER,
    "slow first token": NEVER,
    "stall in mid-stream": NEVER,
}
del WHOLE["stream without its end"]
ROWS = [
    pytest.param(stream, name, id=f"{name}-{'streamed' if stream else 'whole'}")
    for stream, table in ((True, STREAMED), (False, WHOLE))
    for name in table
]


def test_every_fault_has_an_expectation():
    assert STREAMED.keys() == FAULTS.keys()


@KINDS
@pytest.mark.parametrize(("stream", "name"), ROWS)
async def test_provider_faults_map_to_errors(
    server, pauses, skip_seconds, kind, stream, name
):
    expected = (STREAMED if stream else WHOLE)[name]
    server.default = FAULTS[name]
    provider = server.provider(kind, timeouts=short(expected.wait, 100))
    attempts, received_text = list[Attempt](), list[str]()

    async def listen() -> None:
        async for event in client.run(
            "acme", provider, model_request(stream=stream), attempts
        ):
            received_text.extend([event.text] if isinstance(event, TextDelta) else [])

    call = asyncio.create_task(listen())
    if expected.wait is not None:
        await server.until(lambda: server.requests)
        while "".join(received_text) != expected.received_text:  # noqa: ASYNC110  no event
            await asyncio.sleep(0.001)
        skip_seconds(100)
    with pytest.raises(expected.error) as caught:
        await asyncio.wait_for(call, LEEWAY_SECONDS)
    error = caught.value
    assert (error.code, getattr(error, "wait", None)) == (expected.code, expected.wait)
    assert "".join(received_text) == expected.received_text
    assert len(server.requests) == len(attempts) == expected.requests
    assert len(pauses) == expected.requests - 1
    # A reply that had begun was an answer.
    assert (attempts[-1].error is None) is bool(expected.received_text)
    if not expected.is_reused:
        await server.until(lambda: server.open == 0)
    else:
        assert server.connections == 1


async def test_retry_after_is_respected(server, pauses):
    server.then(FAULTS["429 with Retry-After"])
    await collect_events(server.provider())
    assert 1 <= pauses[0] <= 1.5


@KINDS
@STREAMS
async def test_valid_reply_succeeds(server, kind, stream):
    events = await collect_events(server.provider(kind), model_request(stream=stream))
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == "Hello there"
    assert server.requests[0].key == fault_server.KEY


@STREAMS
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (faults.plain_text, BrokenReply),
        (faults.not_http, BrokenReply),
        (faults.half_event, BrokenReply),
        (faults.hang_up, ProviderDisconnected),
        (faults.reset, ProviderDisconnected),
    ],
)
async def test_other_faults_map_to_errors(server, pauses, stream, fault, error):
    server.default = fault
    with pytest.raises(error):
        await collect_events(server.provider(), model_request(stream=stream))
    assert len(server.requests) == (3 if error is ProviderDisconnected else 1)


async def test_kept_alive_connection_closed_by_server_is_retried(server, pauses):
    """Like servers that close idle connections during a request."""
    server.then(faults.reply(), faults.hang_up)
    await collect_events(server.provider())
    await collect_events(server.provider())
    assert len(server.requests) == 3


# Failures before the connection.


async def test_refused_connection_names_the_base_url(pauses):
    remedy = r"check providers\.acme\.base_url"
    with faults.refused_port() as port, pytest.raises(Unreachable, match=remedy):
        await collect_events(provider_at(f"http://127.0.0.1:{port}/v1"))
    assert len(pauses) == 2


async def test_unanswered_connection_times_out(pauses):
    attempts: list[Attempt] = []
    with faults.deaf_port() as port, pytest.raises(TimedOut) as caught:
        await collect_events(
            provider_at(f"http://127.0.0.1:{port}/v1", "connect"), attempts=attempts
        )
    assert caught.value.wait == "connect"
    assert len(attempts) == 3
    assert sum(attempt.seconds for attempt in attempts) < LEEWAY_SECONDS


async def test_unknown_host_name_is_unreachable(pauses):
    with faults.names(), pytest.raises(Unreachable, match="not known"):
        await collect_events(provider_at(faults.NOWHERE))
    assert len(pauses) == 2


async def test_hanging_dns_lookup_times_out(pauses):
    with faults.names(hang=True), pytest.raises(TimedOut) as caught:
        await collect_events(provider_at(faults.NOWHERE, "connect", retries=0))
    assert caught.value.wait == "connect"


async def test_untrusted_certificate_is_reported(pauses):
    reason = r"TLS failed.*CERTIFICATE_VERIFY_FAILED"
    with FaultServer(secure=True) as server, pytest.raises(Unreachable, match=reason):
        await collect_events(server.provider())
    assert (pauses, server.requests) == ([], [])


async def test_plain_http_server_for_https_is_reported(pauses):
    in_the_clear = b"HTTP/1.1 400 Bad Request\r\n\r\n", faults.END
    with FaultServer(greeting=in_the_clear) as server:
        insecure = provider_at(f"https://127.0.0.1:{server.port}/v1")
        with pytest.raises(Unreachable, match="TLS failed"):
            await collect_events(insecure)
    assert pauses == []


async def test_hanging_tls_handshake_times_out():
    with FaultServer(greeting=(faults.HANG,)) as server:
        address = f"https://127.0.0.1:{server.port}/v1"
        with pytest.raises(TimedOut) as caught:
            await collect_events(provider_at(address, "connect", retries=0))
        assert caught.value.wait == "connect"


# Slow responses.


@STREAMS
async def test_slow_headers_time_out(server, stream):
    server.default = faults.slow_headers(0.02)
    wait = "first_token" if stream else "total"
    with pytest.raises(TimedOut) as caught:
        await collect_events(
            server.provider(timeouts=short(wait)), model_request(stream=stream)
        )
    assert caught.value.wait == wait
    await server.until(lambda: server.open == 0)


@KINDS
@STREAMS
async def test_slow_body_times_out(server, kind, stream):
    """Each byte arrives in time, but the head never ends."""
    server.default = faults.trickle(0.02)
    provider = server.provider(kind, timeouts=short("total"))
    with pytest.raises(TimedOut) as caught:
        await collect_events(provider, model_request(stream=stream))
    assert caught.value.wait == "total"
    await server.until(lambda: server.open == 0)


async def test_status_counts_when_the_error_body_hangs(server, monkeypatch):
    monkeypatch.setattr(http_request, "ERROR_BODY_SECONDS", 0.05)
    server.default = faults.unexplained(503)
    with pytest.raises(Overloaded):
        await collect_events(server.provider(retries=0))
    await server.until(lambda: server.open == 0)


async def test_error_body_in_two_chunks_is_read_completely(server):
    error = {"code": "insufficient_quota", "message": "You have spent it all."}
    server.default = faults.split_status(429, {"error": error})
    with pytest.raises(OutOfCredit):
        await collect_events(server.provider(retries=0))


async def test_retries_end_at_the_total_timeout(server):
    """With real pauses, the third try would start too late."""
    server.default = faults.status(503, retry_after=0.6)
    started = time.monotonic()
    with pytest.raises(Overloaded):
        await collect_events(server.provider(retries=10, timeouts={"total_seconds": 1}))
    assert time.monotonic() - started < LEEWAY_SECONDS
    assert len(server.requests) <= 2


async def test_cancelled_call_closes_a_hanging_connection(server):
    server.default = faults.silence
    task = asyncio.create_task(collect_events(server.provider()))
    await server.until(lambda: server.requests)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await server.until(lambda: server.open == 0)
    assert server.requests[0].left
