"""Clients that disconnect: the turn is cancelled, and its messages are stored."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway.asgi import slow_clients
from processes.http_server.connections import ConnectionLimits
from tests.conftest import serve
from tests.gateway.calls import (
    RawClient,
    ask,
    body,
    open_connection,
    plain,
    prompt,
    stored,
    until,
)

pytestmark = pytest.mark.database

BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])
EITHER = pytest.mark.parametrize("stream", [True, False])


def provider_is_free(fake) -> bool:
    """Whether no call to the provider is open: it hangs up on none by itself."""
    return fake.is_idle


def leave_when_asked(server, fake, request):
    """Call, and leave when the provider has the request."""
    count = len(fake.requests)
    with open_connection(server, request):
        fake.wait(lambda: len(fake.requests) > count)
    fake.wait(lambda: fake.requests[-1].aborted)


@BOTH
@EITHER
@pytest.mark.parametrize("place", ["headers", "first_token"])
def test_disconnect_before_first_token_stops_provider(
    server, fake, user, agent, stream, place
):
    fake.hang(place)
    leave_when_asked(server, fake, body(user, agent=agent, stream=stream))
    assert until(lambda: stored(user)) == [("user", "hi", "")]


@BOTH
def test_disconnect_mid_stream_stores_sent_text(server, fake, user, agent):
    fake.hang("mid_stream", "first", "second")
    with open_connection(server, body(user, agent=agent, stream=True)) as caller:
        caller.read_until("first")
    fake.wait(lambda: fake.requests[-1].aborted)
    until(lambda: stored(user))
    assert stored(user) == [("user", "hi", ""), ("assistant", "first", "cancelled")]


def test_disconnect_stores_no_more_than_was_sent(server, fake, user):
    fake.reply(*["word "] * 5000, pause_seconds=0.001)
    with open_connection(server, body(user, stream=True)) as caller:
        caller.read_until("word ")
    until(lambda: provider_is_free(fake))
    until(lambda: stored(user))
    role, text, reason = stored(user)[-1]
    assert (role, reason) == ("assistant", "cancelled")
    assert 1 <= text.count("word ") < 5000


@BOTH
def test_reasoning_alone_is_not_stored_as_a_reply(server, fake, user, agent):
    fake.reply("42", reasoning=["hm"] * 5000, pause_seconds=0.001)
    with open_connection(server, body(user, agent=agent, stream=True)) as caller:
        caller.read_until("hm")
    until(lambda: provider_is_free(fake))
    until(lambda: stored(user))
    assert stored(user) == [("user", "hi", "")]


@BOTH
def test_tool_call_cut_by_disconnect_keeps_next_turn_valid(
    server, client, fake, user, agent
):
    fake.reply("Let me see. ", tool_calls=[("look", {"at": "sky"})], hang="mid_stream")
    tools = [{"type": "function", "function": {"name": "look"}}]
    with open_connection(
        server, body(user, agent=agent, tools=tools, stream=True)
    ) as caller:
        caller.read_until("Let me see")
    until(lambda: stored(user))
    ask(client, user, "never mind", agent=agent)
    assert [text for _, text in prompt(fake.requests[-1])] == [
        "You are a test assistant.",
        "hi",
        "Let me see. ",
        "never mind",
    ]


@BOTH
def test_next_turn_includes_partial_reply(server, client, fake, user, agent):
    fake.hang("mid_stream", "first", "second")
    with open_connection(server, body(user, agent=agent, stream=True)) as caller:
        caller.read_until("first")
    until(lambda: stored(user))
    ask(client, user, "go on", agent=agent)
    assert prompt(fake.requests[-1])[1:] == [
        ("user", "hi"),
        ("assistant", "first"),
        ("user", "go on"),
    ]


@BOTH
@EITHER
def test_repeated_question_is_in_the_prompt_once(
    server, client, fake, user, agent, stream
):
    for _ in range(2):
        fake.hang("headers")
        leave_when_asked(server, fake, body(user, agent=agent, stream=stream))
    until(lambda: len(stored(user)) == 2)
    ask(client, user, agent=agent)
    (message,) = [m for m in fake.bodies[-1]["messages"] if m["role"] == "user"]
    assert plain(message["content"]) == "hi"
    ask(client, user, "more", agent=agent)
    assert [text for _, text in prompt(fake.requests[-1])[1:]] == [
        "hi",
        "Hello from the fake.",
        "more",
    ]


def test_disconnect_from_a_whole_reply_keeps_the_question(server, fake, user):
    fake.reply("too late", pause_seconds=30)
    leave_when_asked(server, fake, body(user))
    assert until(lambda: stored(user)) == [("user", "hi", "")]


def test_cancelled_incognito_turn_stores_nothing(server, fake, user, settled):
    fake.hang("mid_stream", "first", "second")
    request = body(user, stream=True, metadata={"memory": "incognito"})
    with open_connection(server, request) as caller:
        caller.read_until("first")
    fake.wait(lambda: fake.requests[-1].aborted)
    settled()
    assert stored(user) == []


def test_silent_client_still_gets_its_reply(server, fake, user):
    fake.hang("first_token", "late")
    with open_connection(server, body(user, stream=True)) as caller:
        fake.wait(lambda: fake.requests)
        fake.release()
        caller.read_until("[DONE]")
    assert not fake.requests[-1].aborted
    assert stored(user)[-1] == ("assistant", "late", "stop")


def test_many_disconnects_leave_nothing_behind(server, fake, user, settled):
    places = ["headers", "first_token", "mid_stream"] * 20
    for place in places:
        fake.hang(place, "first", "second")

    def call(number: int) -> RawClient:
        stream = number % 4 != 0
        return RawClient(server, body(f"{user}/{number}", stream=stream))

    with ThreadPoolExecutor(12) as pool:
        callers = list(pool.map(call, range(len(places))))
    fake.wait(lambda: len(fake.requests) == len(places))
    for caller in callers:
        caller.close()
    until(lambda: provider_is_free(fake))
    assert not any(request.answered for request in fake.requests)
    settled()
    for number in range(len(places)):
        until(lambda number=number: stored(f"{user}/{number}"))
        question, *partial = stored(f"{user}/{number}")
        assert question == ("user", "hi", "")
        assert partial in ([], [("assistant", "first", "cancelled")])


def test_client_that_stops_reading_is_cancelled(server, fake, user, monkeypatch):
    monkeypatch.setattr(slow_clients, "SEND_TIMEOUT_SECONDS", 0.2)
    fake.reply(*["x" * 100_000] * 300)
    with open_connection(server, body(user, stream=True)) as caller:
        caller.read_until("x")
        fake.wait(lambda: fake.requests[-1].aborted)
        until(lambda: stored(user))
    assert stored(user)[-1][2] == "cancelled"


def test_connection_of_stalled_client_is_reset(server, fake, user, monkeypatch):
    monkeypatch.setattr(slow_clients, "SEND_TIMEOUT_SECONDS", 0.2)
    limits = ConnectionLimits(poll_seconds=0.05, window_seconds=0.3)
    fake.reply(*["x" * 100_000] * 300)
    with (
        serve("coulisse_site.asgi:application", limits=limits) as url,
        open_connection(url, body(user, stream=True)) as caller,
    ):
        caller.read_until("x")
        assert until(caller.is_reset)
