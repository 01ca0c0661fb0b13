"""Calls without a usage from the provider are charged by an estimate."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from access.limits import time_windows, usage_limits
from access.models import UsageCounter
from access.users import identity
from core import token_estimates
from core.events import Usage
from core.messages import Message, Reasoning
from tests.conftest import CONFIG
from tests.gateway.calls import body, open_connection, post, until, user_message

pytestmark = pytest.mark.database

LIMITED = (
    # Schemas are sent as `response_format`, too.
    CONFIG.replace(
        "    retries: 0\n", "    retries: 0\n    structured_outputs: native\n", 1
    ).replace(
        "  - name: assistant\n",
        "  - name: armed\n    provider: openai\n    model: gpt-test\n"
        "    memory_tools: true\n  - name: assistant\n",
    )
    + "\nlimits: [{per: principal, tokens_per_day: 1000000000}]\n"
)
REPLY_TOKENS = 50
"""The `max_tokens` of the requests below."""

WORDS = "a description of what it is good for, in so many words. " * 1_500
BIG_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": WORDS,
            "parameters": {"type": "object", "properties": {}},
        },
    }
    for number in range(5)
]
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string", "description": WORDS}},
    "required": ["answer"],
    "additionalProperties": False,
}
FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
}
PIXELS = "data:image/png;base64," + base64.b64encode(bytes(300)).decode()
PICTURES = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "what are these?"},
            *[{"type": "image_url", "image_url": {"url": PIXELS}}] * 5,
        ],
    }
]

CASES = {
    "plain": {},
    "tools": {"tools": BIG_TOOLS},
    "schema": {"response_format": FORMAT},
    "images": {"messages": PICTURES},
    "all": {"tools": BIG_TOOLS, "response_format": FORMAT, "messages": PICTURES},
}
WINDOWS = [
    ("headers", True),
    ("first_token", True),
    ("mid_stream", True),
    ("headers", False),
    ("mid_stream", False),
]


@pytest.fixture
def url(running, configure):
    configure(LIMITED)
    return running


def meter(user: str) -> UsageCounter | None:
    subject = usage_limits.user_subject(identity.derive_user_id(user))
    return UsageCounter.objects.filter(subject=subject, window=time_windows.DAY).first()


def aside(user: str) -> int:
    found = meter(user)
    return (
        0 if found is None else found.tokens_reserved_now + found.tokens_reserved_before
    )


def charged(user: str) -> int:
    """Return a user's charge, after all their turns have ended."""
    until(lambda: meter(user) is not None and aside(user) == 0)
    found = meter(user)
    assert found is not None
    return found.tokens


def sent(request) -> int:
    """Estimate the sent tokens by the size of the body alone."""
    pictures = 0

    def plain(part):
        nonlocal pictures
        if isinstance(part, dict) and part.get("type") in ("image", "image_url"):
            pictures += 1
            return None
        if isinstance(part, dict):
            return {key: plain(value) for key, value in part.items()}
        return list(map(plain, part)) if isinstance(part, list) else part

    names = ("messages", "system", "tools", "response_format")
    content = {
        name: plain(request.body[name]) for name in names if name in request.body
    }
    size = len(json.dumps(content, ensure_ascii=False).encode())
    return (
        size // token_estimates.BYTES_PER_TOKEN
        + pictures * token_estimates.IMAGE_TOKENS
    )


def assert_about(count: int, expected: int) -> None:
    # JSON syntax is not counted, and each message has an overhead.
    assert 0.97 * expected - 40 <= count <= 1.03 * expected + 40


def leave(url: str, fake, request, place: str) -> None:
    """Send a request and disconnect when the provider has reached a step."""
    before = len(fake.requests)
    with open_connection(url, request) as caller:
        fake.wait(lambda: len(fake.requests) > before)
        # With a format, the reply is sent only after its validation.
        is_heard = request["stream"] and "response_format" not in request
        if place == "mid_stream" and is_heard:
            caller.read_until("Hello")
    fake.wait(lambda: fake.requests[-1].aborted)


@pytest.mark.parametrize("agent", ["assistant", "claude"])
@pytest.mark.parametrize(("place", "stream"), WINDOWS)
@pytest.mark.parametrize("case", CASES)
def test_cancelled_turn_is_charged_for_all_it_sent(
    url, fake, user, agent, place, stream, case
):
    fake.hang(place)
    limit = {"max_tokens": REPLY_TOKENS}
    request = body(user, agent=agent, stream=stream, **{**CASES[case], **limit})
    leave(url, fake, request, place)
    assert_about(charged(user), sent(fake.requests[-1]))


def test_schemas_are_sent_natively(url, fake, user):
    fake.reply('{"answer": "yes"}')
    post(url, body(user, response_format=FORMAT))
    assert fake.bodies[-1]["response_format"] == FORMAT


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("agent", ["assistant", "claude"])
def test_estimate_is_what_a_cancelled_turn_is_charged(url, fake, user, agent, case):
    fake.hang("headers")
    limit = {"max_tokens": REPLY_TOKENS}
    with open_connection(url, body(user, agent=agent, **{**CASES[case], **limit})):
        fake.wait(lambda: fake.requests)
        reserved = aside(user)
    assert charged(user) == reserved - REPLY_TOKENS


def test_estimate_includes_an_exchange_only_the_client_holds(url, fake, user):
    fake.hang("headers")
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
    messages = [
        user_message(WORDS),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]
    request = body(user, messages=messages, max_tokens=REPLY_TOKENS)
    with open_connection(url, request):
        fake.wait(lambda: fake.requests)
        reserved = aside(user)
    assert_about(reserved - REPLY_TOKENS, sent(fake.requests[-1]))
    assert charged(user) == reserved - REPLY_TOKENS


@pytest.mark.parametrize(("place", "stream"), WINDOWS)
def test_every_round_of_the_agents_tools_is_charged(url, fake, user, place, stream):
    for word in ("tea", "coffee"):
        fake.call_tool("search_memory", {"query": word}, usage=None)
    fake.hang(place)
    request = body(user, agent="armed", stream=stream, tools=BIG_TOOLS)
    with open_connection(url, request) as caller:
        fake.wait(lambda: len(fake.requests) == 3)
        if place == "mid_stream" and stream:
            caller.read_until("Hello")
    fake.wait(lambda: fake.requests[-1].aborted)
    assert_about(charged(user), sum(map(sent, fake.requests)))


@pytest.mark.parametrize("place", ["headers", "mid_stream"])
def test_every_repair_of_a_reply_is_charged(url, fake, user, place):
    fake.reply("no JSON", usage=None)
    fake.reply('{"answer": 42}', usage=None)
    fake.hang(place)
    request = body(user, response_format=FORMAT, tools=BIG_TOOLS)
    with open_connection(url, request):
        fake.wait(lambda: len(fake.requests) == 3)
    fake.wait(lambda: fake.requests[-1].aborted)
    assert_about(charged(user), sum(map(sent, fake.requests)))


@pytest.mark.parametrize("stream", [True, False])
def test_provider_without_usage_is_charged_by_the_same_count(url, fake, user, stream):
    fake.reply("Hello", usage=None)
    post(url, body(user, stream=stream, tools=BIG_TOOLS))
    assert_about(charged(user), sent(fake.requests[-1]))


def test_broken_stream_is_charged_for_all_it_sent(url, fake, user):
    fake.cut("mid_stream", "Hello", " there")
    post(url, body(user, stream=True, tools=BIG_TOOLS))
    assert_about(charged(user), sent(fake.requests[-1]))


@pytest.mark.parametrize("stream", [True, False])
def test_reported_usage_counts_in_place_of_the_estimate(url, fake, user, stream):
    fake.reply("Hello", usage=Usage(70, 3))
    post(url, body(user, stream=stream, tools=BIG_TOOLS))
    assert charged(user) == 73


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("agent", ["assistant", "claude"])
def test_reported_usage_of_zero_is_kept(url, fake, user, agent, stream):
    fake.reply("Hello", usage=Usage(0, 0))
    answer = post(url, body(user, agent=agent, stream=stream, tools=BIG_TOOLS))
    assert answer.status_code == 200
    assert charged(user) == 0


@pytest.mark.parametrize("wrong", [{"n": 2}, {"agent": "nobody"}, {"messages": []}])
def test_turn_refused_before_its_call_costs_nothing(url, fake, user, wrong):
    refusal = post(url, body(user, **{"tools": BIG_TOOLS, **wrong}))
    assert refusal.status_code in (400, 404)
    assert meter(user) is None
    assert fake.requests == []


def test_tools_are_counted_once_a_turn(url, fake, user, monkeypatch):
    counted = []
    dumps = orjson.dumps

    def watch(value, *args, **more):
        if isinstance(value, list) and value and "function" in value[0]:
            counted.append(value)
        return dumps(value, *args, **more)

    monkeypatch.setattr(token_estimates, "orjson", type("Json", (), {
        "dumps": staticmethod(watch), "JSONEncodeError": orjson.JSONEncodeError
    }))  # fmt: skip
    fake.reply("no JSON", usage=None)
    fake.reply('{"answer": "yes"}', usage=None)
    post(url, body(user, response_format=FORMAT, tools=BIG_TOOLS))
    assert len(fake.requests) == 2
    assert len(counted) == 1
    counted.clear()
    post(url, body(user))
    assert counted == []


def test_parallel_turns_with_big_tools_pass_no_limit(running, configure, fake, user):
    """Each request needs 100,000 tokens of tools: a limit of 250,000 covers three."""
    entry = "{per: principal, tokens_per_day: 250000}"
    configure(f"{CONFIG}\nlimits: [{entry}]\n")
    for _ in range(3):
        fake.hang("headers")
    request = body(user, tools=BIG_TOOLS, metadata={"history": "client"})
    with ThreadPoolExecutor(12) as pool:
        answers = [pool.submit(post, running, request) for _ in range(12)]
        until(lambda: sum(answer.done() for answer in answers) == 9)
        fake.wait(lambda: len(fake.requests) == 3)
        fake.release()
        codes = sorted(answer.result().status_code for answer in answers)
    assert codes == [200] * 3 + [429] * 9


def test_reasoning_in_history_is_counted():
    plain = Message("assistant", "Hi")
    message = Message("assistant", "Hi", reasoning=(Reasoning("x" * 400),))
    more = token_estimates.estimate_message(message) - token_estimates.estimate_message(
        plain
    )
    assert more == 100
