"""Provider failures over real sockets: responses, delays, charges and stored rows.

`docs/reliability.md` has the same table.
"""

import asyncio
import functools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
import orjson
import pytest

from access.limits import time_windows, usage_limits
from access.models import UsageCounter
from access.users.identity import derive_user_id
from config import live
from config.loading import loader
from config.sections import Config
from core.errors import public_text
from core.events import Usage
from providers.resilience import backoff
from testing.scripted_provider import FakeProvider
from tests.docs.pages import table_rows
from tests.gateway.calls import (
    DONE,
    body,
    error,
    open_connection,
    post,
    read_frames,
    stored,
    text_of,
)
from tests.gateway.security.test_private_details import assert_public
from tests.gateway.turns.test_turn_record import load_turn
from tests.providers import faults
from tests.providers.fault_server import FaultServer
from tests.providers.faults import CUT, HANG

pytestmark = pytest.mark.database

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


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    async def pause(seconds: float) -> None:
        """Return at once."""

    monkeypatch.setattr(backoff, "sleep", pause)


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


@pytest.fixture(scope="module")
def stage() -> Iterator[Setup]:
    with (
        FaultServer() as broken,
        FaultServer(secure=True) as untrusted,
        FakeProvider() as spare,
        faults.refused_port() as refused,
        faults.deaf_port() as deaf,
        faults.names(),
    ):
        addresses = {
            "broken": f"{broken.root_url}/v1",
            "deaf": f"http://127.0.0.1:{deaf}/v1",
            "refused": f"http://127.0.0.1:{refused}/v1",
            "unknown": faults.NOWHERE,
            "untrusted": f"{untrusted.root_url}/v1",
        }
        yield Setup(broken, spare, addresses)


@pytest.fixture
def broken(stage):
    """The server of the failing provider."""
    stage.broken.default = faults.reply()
    stage.broken.requests.clear()
    return stage.broken


@pytest.fixture
def spare(stage):
    """The fallback provider."""
    stage.spare.requests.clear()
    return stage.spare


@pytest.fixture
def call_agent(running, stage, broken, spare, user):
    """Return a function that calls an agent while the provider has a fault."""

    def call_agent(
        row: Row, kind: str, agent: str, *, stream: bool, user_name: str = user
    ) -> "Answer":
        if row.do is not None:
            broken.default = row.do
        live.set_current(stage.config(row, kind, row.stream if stream else row.whole))
        request = body(user_name, "hi", agent=agent, stream=stream, **LIMITED)
        started = time.monotonic()
        return Answer(post(running, request), time.monotonic() - started)

    return call_agent


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


REMEDIES = {
    "refused connection": "check providers.main.base_url",
    "DNS failure": "check providers.main.base_url",
    "TLS error": "check providers.main.base_url",
    "no connection": "providers.main.timeouts.connect_seconds",
    "key refused": "check providers.main.api_key",
    "no credit": "providers.main.api_key",
    "unknown model": "providers.main.base_url",
}
"""Details that are in the turn record for operators, but not in the response."""


@pytest.mark.parametrize(("row", "kind", "stream"), cases("openai", "anthropic"))
def test_provider_fault_is_reported_stored_and_charged(
    call_agent, user, row, kind, stream
):
    expected = row.stream if stream else row.whole
    answer = call_agent(row, kind, "lone", stream=stream)
    assert answer.seconds < expected.seconds + SLACK_SECONDS
    refusal = answer.error(expected)
    assert refusal["code"] == expected.code
    if expected.text is None:
        for name, value in row.headers.items():
            assert answer.headers[name] == value
        assert answer.headers["x-coulisse-attempts"] == str(expected.tries)
    assert answer.headers["x-coulisse-provider"] == "main"
    assert_public(answer.response.text)
    turn = load_turn(user)
    assert (turn.outcome, public_text(turn.error)) == ("error", refusal["message"])
    if row.fault in REMEDIES:
        assert REMEDIES[row.fault] in turn.error
    (call,) = turn.calls
    # A single successful attempt is not recorded.
    assert (len(call.attempts) or 1) == expected.tries
    message = expected.text is not None
    assert stored(user) == (
        [("user", "hi", ""), ("assistant", expected.text, "error")] if message else []
    )
    used = turn.usage.input_tokens + turn.usage.output_tokens
    assert (used > 0) is message
    assert turn.cost_micro_usd == cost(turn.usage)
    assert charged(user) == (used, cost(turn.usage))


@pytest.mark.parametrize(("row", "kind", "stream"), cases("openai"))
def test_fallback_takes_over_before_any_output(
    call_agent, spare, user, row, kind, stream
):
    expected = row.stream if stream else row.whole
    answer = call_agent(row, kind, "guarded", stream=stream)
    if expected.text is not None or not row.is_routed:
        assert answer.error(expected)["code"] == expected.code
        assert spare.requests == []
        assert charged(user)[1] == cost(load_turn(user).usage)
        return
    assert answer.response.status_code == 200
    assert "Hello from the fake." in answer.response.text.replace('"}', "")
    assert answer.headers["x-coulisse-provider"] == "spare"
    assert answer.headers["x-coulisse-attempts"] == str(expected.tries + 1)
    turn = load_turn(user)
    assert turn.outcome == "ok"
    failed, answered = turn.calls
    assert (failed.provider, len(failed.attempts)) == ("main", expected.tries)
    assert failed.error
    assert failed.usage is None
    assert (answered.provider, answered.model, answered.error) == ("spare", "m2", None)
    assert stored(user)[-1] == ("assistant", "Hello from the fake.", "stop")
    assert turn.cost_micro_usd == SPARE_MICRO_USD
    assert charged(user) == (10, SPARE_MICRO_USD)


@EITHER
def test_provider_is_used_again_after_recovery(call_agent, broken, user, stream):
    broken.then(faults.status(500), faults.reply("Back."))
    row = Row("recovery", None, None)
    answer = call_agent(row, "openai", "lone", stream=stream)
    assert answer.response.status_code == 200
    assert answer.headers["x-coulisse-attempts"] == "2"
    turn = load_turn(user)
    assert turn.outcome == "ok"
    assert [each.error is None for each in turn.calls[0].attempts] == [False, True]
    assert charged(user) == (10, REPLY_MICRO_USD)


LEFT = Row(
    "open circuit",
    **both(503, "provider_circuit_open", 0),
    do=faults.status(500),
    breaker={"failures": 3, "after_seconds": 0, "open_seconds": 300},
)


@pytest.fixture
def left_alone(call_agent, broken, user):
    """The server of a provider whose circuit breaker is open."""
    answer = call_agent(
        LEFT, "openai", "lone", stream=False, user_name=f"{user}-before"
    )
    assert error(answer.response, 503)["code"] == "provider_overloaded"
    broken.requests.clear()
    return broken


@EITHER
def test_open_circuit_refuses_with_503(call_agent, left_alone, user, stream):
    answer = call_agent(LEFT, "openai", "lone", stream=stream)
    refusal = error(answer.response, 503)
    assert refusal["code"] == "provider_circuit_open"
    assert answer.seconds < SLACK_SECONDS
    assert 1 <= int(answer.headers["retry-after"]) <= 300
    assert answer.headers["x-coulisse-provider"] == "main"
    assert answer.headers["x-coulisse-attempts"] == "0"
    assert left_alone.requests == []
    assert_public(answer.response.text)
    turn = load_turn(user)
    assert (turn.outcome, public_text(turn.error)) == ("error", refusal["message"])
    assert "last error: provider 'main' failed" in turn.error
    assert stored(user) == []
    assert charged(user) == (0, 0)


@EITHER
def test_fallback_answers_behind_an_open_circuit(call_agent, left_alone, user, stream):
    answer = call_agent(LEFT, "openai", "guarded", stream=stream)
    assert answer.response.status_code == 200
    assert answer.headers["x-coulisse-provider"] == "spare"
    assert answer.headers["x-coulisse-attempts"] == "1"
    assert left_alone.requests == []
    assert [len(call.attempts) for call in load_turn(user).calls] == [0, 0]
    assert charged(user) == (10, SPARE_MICRO_USD)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("do", "stream", "message"),
    [
        (faults.silence, True, ""),
        (faults.silence, False, ""),
        (faults.stopped(HANG), True, "Hello there"),
    ],
    ids=["before-stream", "before-whole", "within"],
)
def test_client_disconnect_during_a_fault_is_charged(
    running, stage, broken, user, kind, do, stream, message
):
    broken.default = do
    live.set_current(stage.config(Row("client leaves", None, None), kind))
    request = body(user, "hi", agent="lone", stream=stream, **LIMITED)
    with open_connection(running, request) as caller:
        broken.wait(lambda: broken.requests)
        # Each word has its own frame.
        for word in message.split():
            caller.read_until(word)
    broken.wait(lambda: broken.requests[0].left)
    turn = load_turn(user)
    assert turn.outcome == "cancelled"
    saved = [("assistant", message, "cancelled")] if message else []
    assert stored(user) == [("user", "hi", ""), *saved]
    # The provider has received the prompt, and charges for it.
    assert turn.usage.input_tokens == PROMPT_TOKENS
    assert (turn.usage.output_tokens > 0) is bool(message)
    used = turn.usage.input_tokens + turn.usage.output_tokens
    assert charged(user) == (used, cost(turn.usage))


PROMPT_TOKENS = 5
"""The estimated tokens of "hi"."""


@EITHER
def test_disconnect_between_attempts_costs_nothing(
    running, stage, broken, user, monkeypatch, stream
):
    pausing = threading.Event()

    async def pause(seconds: float) -> None:
        pausing.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(backoff, "sleep", pause)
    broken.default = faults.status(503)
    live.set_current(stage.config(Row("client leaves", None, None), "openai"))
    request = body(user, "hi", agent="lone", stream=stream, **LIMITED)
    with open_connection(running, request):
        assert pausing.wait(60)
    turn = load_turn(user)
    assert turn.outcome == "cancelled"
    assert turn.calls[0].usage is None
    assert charged(user) == (0, 0)


def dead(*keys: str) -> faults.Fault:
    """Refuse these keys, and accept others."""

    def steps(request: faults.Request) -> Any:
        return (faults.status(401) if request.key in keys else faults.reply())(request)

    return steps


KEYS = ("sk-first-0123456789", "sk-second-0123456789")
TWO_KEYS = """
providers:
  main:
    kind: openai
    base_url: {address}/v1
    endpoints: [{{api_key: {first}}}, {{api_key: {second}}}]
agents:
  - {{name: lone, provider: main, model: m}}
"""


@pytest.fixture
def two_keys(running, broken):
    """The URL of a server whose provider has two keys."""
    first, second = KEYS
    text = TWO_KEYS.format(address=broken.root_url, first=first, second=second)
    live.set_current(config(text))
    return running


@EITHER
def test_dead_key_is_skipped(two_keys, broken, user, stream):
    broken.default = dead(KEYS[0])
    for number in range(6):
        answer = post(two_keys, body(f"{user}-{number}", agent="lone", stream=stream))
        assert answer.status_code == 200
        assert int(answer.headers["x-coulisse-attempts"]) <= 2
    # The first key is random; the invalid one is used at most once.
    assert [request.key for request in broken.requests].count(KEYS[0]) <= 1


@EITHER
def test_all_dead_keys_return_an_error_without_keys(two_keys, broken, user, stream):
    broken.default = dead(*KEYS)
    answer = post(two_keys, body(user, agent="lone", stream=stream))
    assert error(answer, 502)["code"] == "provider_key_refused"
    assert answer.headers["x-coulisse-attempts"] == "2"
    assert {request.key for request in broken.requests} == {*KEYS}
    assert len(load_turn(user).calls[0].attempts) == 2
    assert not any(key in answer.text for key in KEYS)
    assert stored(user) == []


@EITHER
def test_first_error_is_reported_when_all_fail(call_agent, spare, user, stream):
    spare.fail(401)
    row = next(row for row in ROWS if row.fault == "503")
    answer = call_agent(row, "openai", "guarded", stream=stream)
    refusal = error(answer.response, 503)
    assert refusal["code"] == "provider_overloaded"
    assert "spare/m2: provider 'spare' refused this server's key" in refusal["message"]
    assert answer.headers["x-coulisse-provider"] == "main"
    assert answer.headers["x-coulisse-attempts"] == "4"
    assert [call.provider for call in load_turn(user).calls] == ["main", "spare"]
    assert stored(user) == []
    assert charged(user) == (0, 0)


@EITHER
def test_official_client_does_not_retry(call_agent, running, broken, user, stream):
    row = next(row for row in ROWS if row.fault == "500")
    call_agent(row, "openai", "lone", stream=stream)
    before = len(broken.requests)
    request = body(user, agent="lone", stream=stream)
    with (
        openai.OpenAI(base_url=f"{running}/v1", api_key="x", max_retries=2) as client,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        client.chat.completions.create(**request)
    assert caught.value.code == "provider_overloaded"
    # The server makes three attempts, and the client does not retry.
    assert len(broken.requests) - before == 3


# The page.


def test_reliability_page_lists_every_fault():
    listed = {row[0]: row[1] for row in table_rows("reliability.md", "fault")}
    assert listed.keys() == {row.fault for row in ROWS} | OF_OTHERS
    for row in ROWS:
        for expected in (row.whole, row.stream):
            if expected is None:
                continue
            where = "error frame" if expected.text is not None else str(expected.status)
            assert where in listed[row.fault], row.fault
            assert f"`{expected.code}`" in listed[row.fault] or expected.code is None


OF_OTHERS = {
    "all keys dead",
    "client leaves",
    "fallbacks fail, too",
    "one of two keys dead",
    "open circuit",
    "recovery",
}
"""Rows that other tests of this module cover."""
