"""Faults of providers, and what each leads to."""

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from access.limits import time_windows, usage_limits
from access.models import UsageCounter
from access.users.identity import derive_user_id
from config.loading import loader
from config.sections import Config
from core.events import Usage
from testing.scripted_provider import FakeProvider
from tests.gateway.calls import (
    DONE,
    error,
    read_frames,
    text_of,
)
from tests.providers import faults
from tests.providers.fault_server import FaultServer
from tests.providers.faults import CUT, HANG

EITHER = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


SLACK_SECONDS = 20.0


"""The extra time for a response, besides its timeout, on a busy machine."""


@dataclass(frozen=True)
class Expected:
    """The result for a client."""

    status: int
    code: str | None
    """The type of the error object."""
    tries: int = 3
    """Requests to the provider."""
    text: str | None = None
    """The text before an error in a stream, which has the status 200."""
    seconds: float = 0
    """The number of timeouts before the response."""
    timeout: str | None = None
    """The timeout that ends the request; the others are long."""


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    fault: str
    whole: Expected | None
    """The result without streaming; None for faults of streams."""
    stream: Expected | None
    do: faults.Fault | None = None
    """The fault of the server; None if it is never reached."""
    place: str = "broken"
    """The provider's address, one of the fixture's."""
    breaker: dict[str, float] = field(default_factory=dict)
    is_routed: bool = True
    """Whether a fallback is called if there was no output."""
    headers: dict[str, str] = field(default_factory=lambda: {"x-should-retry": "false"})


def refusing(**fields: str) -> faults.Fault:
    """Respond with 400 and an error object with these fields."""
    content = orjson.dumps({"error": {"message": "no", **fields}})
    head = f"HTTP/1.1 400 Fault\r\nContent-Length: {len(content)}\r\n\r\n"
    return lambda request: [head.encode() + content]


def both(status: int, code: str | None, tries: int = 3) -> dict[str, Expected]:
    expected = Expected(status, code, tries)
    return {"whole": expected, "stream": expected}


ROWS = [
    Row("refused connection", **both(502, "provider_unreachable"), place="refused"),
    Row("DNS failure", **both(502, "provider_unreachable"), place="unknown"),
    Row("TLS error", **both(502, "provider_unreachable", 1), place="untrusted"),
    Row(
        "no connection",
        whole=Expected(504, "provider_timed_out", 3, seconds=0.3, timeout="connect"),
        stream=Expected(504, "provider_timed_out", 3, seconds=0.3, timeout="connect"),
        place="deaf",
    ),
    Row(
        "no response",
        whole=Expected(504, "provider_timed_out", 1, seconds=0.1, timeout="total"),
        stream=Expected(
            504, "provider_timed_out", 1, seconds=0.1, timeout="first_token"
        ),
        do=faults.silence,
    ),
    Row(
        "slow first token",
        whole=None,
        stream=Expected(
            504, "provider_timed_out", 1, seconds=0.1, timeout="first_token"
        ),
        do=faults.slow_start(60),
    ),
    Row(
        "429 with Retry-After",
        **both(429, "provider_rate_limited"),
        do=faults.status(429, retry_after=1),
        headers={"retry-after": "1"},
    ),
    Row("429", **both(429, "provider_rate_limited"), do=faults.status(429)),
    Row("500", **both(503, "provider_overloaded"), do=faults.status(500)),
    Row("503", **both(503, "provider_overloaded"), do=faults.status(503)),
    Row("key refused", **both(502, "provider_key_refused", 1), do=faults.status(401)),
    Row("no credit", **both(502, "provider_out_of_credit", 1), do=faults.status(402)),
    Row(
        "unknown model",
        **both(502, "provider_model_unknown", 1),
        do=faults.status(404),
    ),
    Row("half a JSON", **both(502, "provider_broken_reply", 1), do=faults.half_json),
    Row("empty body", **both(502, "provider_broken_reply", 1), do=faults.empty),
    Row(
        "wrong content type",
        **both(502, "provider_broken_reply", 1),
        do=faults.web_page,
    ),
    Row("not HTTP", **both(502, "provider_broken_reply", 1), do=faults.not_http),
    Row(
        "stall in mid-stream",
        whole=Expected(504, "provider_timed_out", 1, seconds=0.1, timeout="total"),
        stream=Expected(
            200, "provider_timed_out", 1, "Hello there", seconds=0.1, timeout="idle"
        ),
        do=faults.stopped(HANG),
    ),
    Row(
        "cut stream",
        whole=Expected(502, "provider_disconnected"),
        stream=Expected(200, "provider_disconnected", 1, "Hello there"),
        do=faults.stopped(CUT),
    ),
    Row(
        "stream without its end",
        whole=None,
        stream=Expected(200, "provider_broken_reply", 1, "Hello there"),
        do=faults.unterminated,
    ),
    Row(
        "refused request",
        **both(400, None, 1),
        do=refusing(type="invalid_request_error"),
        is_routed=False,
        headers={},
    ),
    Row(
        "content filter",
        **both(400, "content_filter", 1),
        do=refusing(code="content_filter"),
        is_routed=False,
        headers={},
    ),
]


def cases(*kinds: str) -> list[Any]:
    return [
        pytest.param(row, kind, stream, id=f"{row.fault}-{kind}-{stream and 'stream'}")
        for row in ROWS
        for kind in kinds
        for stream in (True, False)
        if (row.stream if stream else row.whole) is not None
        # The kinds differ only once the provider is reached.
        if kind == "openai" or row.do is not None
    ]


YAML = """
tasks: {{tools: false}}
providers:
  main:
    kind: {kind}
    base_url: {address}
    api_key: sk-main-0123456789
    timeouts: {timeouts}
    breaker: {breaker}
  spare:
    kind: openai
    base_url: {spare}
    api_key: sk-spare-0123456789
prices:
  main: {{m: {{input: 2, output: 10}}}}
  spare: {{m2: {{input: 3, output: 20}}}}
agents:
  - {{name: lone, provider: main, model: m}}
  - name: guarded
    provider: main
    model: m
    fallbacks: [{{provider: spare, model: m2}}]
"""


REPLY_MICRO_USD = 7 * 2 + 3 * 10


SPARE_MICRO_USD = 7 * 3 + 3 * 20


def cost(usage: Usage) -> int:
    """Return the cost of a call of the first provider, in micro-dollars."""
    return usage.input_tokens * 2 + usage.output_tokens * 10


@functools.cache
def config(text: str) -> Config:
    """Return a configuration, loaded once: loading is slower than most tests."""
    return loader.parse_config(text.encode(), Path("coulisse.yaml"))


@dataclass
class Setup:
    """Providers for the whole module, because starting them is slow."""

    broken: FaultServer
    spare: FakeProvider
    addresses: dict[str, str]

    def config(self, row: Row, kind: str, expected: Expected | None = None) -> Config:
        """Return the configuration for a kind of provider with a fault."""
        address = self.addresses[row.place]
        timeout = expected.timeout if expected is not None else None
        text = YAML.format(
            kind=kind,
            address=address.removesuffix("/v1") if kind == "anthropic" else address,
            timeouts={f"{timeout}_seconds": 0.1} if timeout is not None else {},
            breaker=row.breaker,
            spare=self.spare.base_url,
        )
        return config(text)


LIMITED = {"metadata": {"tokens_per_day": "1000000"}}


"""A high limit, so that there are counters to charge."""


@dataclass
class Answer:
    """A response and its duration."""

    response: Any
    seconds: float

    @property
    def headers(self) -> Any:
        return self.response.headers

    def error(self, expected: Expected) -> Any:
        """Return the error object of the body or of the stream."""
        if expected.text is None:
            return error(self.response, expected.status)
        assert self.response.status_code == expected.status
        *read, last, done = read_frames(self.response.content)
        assert text_of(read) == expected.text
        assert done == DONE
        reasons = [
            choice["finish_reason"] for each in read for choice in each["choices"]
        ]
        assert set(reasons) == {None}
        return last["error"]


def charged(user: str) -> tuple[int, int]:
    """Return the tokens and micro-dollars a user's day is charged with.

    No reservation remains, and no cost is unknown.
    """
    subject = usage_limits.user_subject(derive_user_id(user))
    counter = UsageCounter.objects.get(subject=subject, window=time_windows.DAY)
    assert (
        counter.turns_reserved_now,
        counter.tokens_reserved_now,
        counter.micro_usd_reserved_now,
    ) == (0, 0, 0)
    assert (counter.turns_reserved_before, counter.tokens_reserved_before) == (0, 0)
    assert counter.unpriced == 0
    return counter.tokens, counter.micro_usd
