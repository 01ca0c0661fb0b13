"""The record of a turn, for every outcome."""

import asyncio
import json
import logging
import uuid

import pytest
from django.db import DataError, OperationalError

from access.limits import time_windows, usage_limits
from access.models import UsageCounter
from access.users import identity
from core.trace import ModelCall
from memory.transcript import message_store
from telemetry.models import Turn
from telemetry.storage import turn_store
from tests.conftest import CONFIG
from tests.gateway import calls
from tests.gateway.calls import ask, body, frames, post, until
from turns.lifecycle import turn_transaction
from turns.tools import memory_tools

pytestmark = pytest.mark.database

TOOLED = (
    CONFIG
    + """
  - name: keeper
    provider: openai
    model: gpt-test
    memory_tools: true
"""
)


@pytest.fixture
def keeper(running, configure):
    configure(TOOLED)
    return running


def turns(user: str) -> list[Turn]:
    return list(Turn.objects.filter(user_id=identity.derive_user_id(user)))


def load_turn(user: str):
    """Return the record of a user's only turn, once it is stored."""
    (row,) = until(lambda: turns(user))
    return turn_store.load_record(row.pk)


@pytest.mark.parametrize("stream", [True, False])
def test_record_is_a_tree_of_calls(keeper, fake, user, stream):
    fake.call_tool("save_memory", {"content": "The user likes tea."})
    fake.reply("Noted.")
    request = body(user, "I like tea.", agent="keeper", metadata={"thread_id": "t"})
    answer = post(keeper, {**request, "stream": stream})
    turn = load_turn(user)
    assert answer.headers["x-request-id"] == turn.request_id
    assert (turn.agent, turn.thread, turn.user_message) == (
        "keeper",
        "t",
        "I like tea.",
    )
    assert (turn.outcome, turn.finish_reason, turn.error) == ("ok", "stop", None)
    assert turn.is_streamed is stream
    assert turn.seconds > 0
    first, tool, second = turn.calls
    assert (first.provider, first.model, first.agent) == (
        "openai",
        "gpt-test",
        "keeper",
    )
    assert (tool.name, tool.kind) == ("save_memory", "memory")
    assert json.loads(tool.arguments) == {"content": "The user likes tea."}
    assert json.loads(tool.result)["outcome"] == "created"
    assert tool.seconds is not None
    assert turn.usage == first.usage + second.usage


def test_turn_without_tools_is_recorded(server, client, user):
    ask(client, user)
    (call,) = load_turn(user).calls
    assert isinstance(call, ModelCall)
    assert call.usage.output_tokens == 3


def test_stored_turn_is_logged_without_content(server, client, user, caplog):
    caplog.set_level(logging.INFO)
    ask(client, user, "my secret")
    turn = load_turn(user)
    [line] = [message for message in caplog.messages if str(turn.turn_id) in message]
    assert "of assistant: ok in" in line
    assert "secret" not in line


def test_disconnect_during_a_tool_call_is_recorded(keeper, fake, user, monkeypatch):
    configure_hanging_search(monkeypatch)
    fake.reply("Let me see.", tool_calls=[("search_memory", {"query": "tea"})])
    request = body(user, "What do I like?", agent="keeper", stream=True)
    with calls.open_connection(keeper, request) as caller:
        caller.read_until("Let me see.")
        until(lambda: HANGING)
    turn = load_turn(user)
    assert turn.outcome == "cancelled"
    assert (turn.calls[1].result, turn.calls[1].error) == (None, None)
    assert turn.calls[1].seconds is None
    assert calls.stored(user)[-1][1:] == ("Let me see.", "cancelled")


HANGING: list[bool] = []


def configure_hanging_search(monkeypatch) -> None:
    HANGING.clear()

    async def hang(self, arguments):
        HANGING.append(True)
        await asyncio.Event().wait()

    monkeypatch.setattr(memory_tools._MemoryToolHandlers, "search", hang)


def test_disconnect_during_a_model_call_is_recorded(server, fake, user):
    fake.hang("mid_stream", "Once ", "upon ")
    with calls.open_connection(server, body(user, "Tell.", stream=True)) as caller:
        caller.read_until("Once")
    turn = load_turn(user)
    assert turn.outcome == "cancelled"
    # The output until then is charged.
    assert turn.usage.output_tokens > 0
    assert turn.usage.input_tokens > 0


@pytest.mark.parametrize("stream", [True, False])
def test_provider_failure_is_recorded_without_messages(server, fake, user, stream):
    fake.fail(400, "the prompt is too long")
    post(server, body(user, "hi", stream=stream))
    turn = load_turn(user)
    assert turn.outcome == "error"
    assert "the prompt is too long" in turn.error
    assert "the prompt is too long" in turn.calls[0].error
    assert calls.stored(user) == []


def test_broken_stream_is_recorded_as_error(server, fake, user):
    fake.cut("mid_stream", "Once ")
    read = frames(server, body(user, "hi"))
    assert "error" in read[-2]
    turn = load_turn(user)
    assert turn.outcome == "error"
    assert turn.usage.output_tokens > 0
    assert calls.stored(user)[-1] == ("assistant", "Once ", "error")


def test_refused_request_is_not_recorded(server, user):
    calls.refused(server, body(user, "hi", agent="nobody"), 404)
    assert turns(user) == []


def test_incognito_turn_is_not_recorded(server, client, user):
    ask(client, user, metadata={"memory": "incognito"})
    ask(client, user)
    assert len(turns(user)) == 1


def test_disabled_telemetry_records_nothing(running, configure, client, user):
    configure(CONFIG + "\ntelemetry: {sqlite: {enabled: false}}\n")
    ask(client, user)
    assert turns(user) == []
    assert calls.stored(user)


def test_repaired_reply_is_one_turn_with_all_calls(server, client, fake, user):
    fake.reply("no json")
    fake.reply('{"a": 1}')
    ask(client, user, response_format={"type": "json_object"}, agent="claude")
    turn = load_turn(user)
    assert len(turn.calls) == 2
    assert turn.usage.output_tokens == 6


def test_messages_are_stored_when_the_record_fails(
    server, client, user, monkeypatch, caplog
):
    def refuse(record, settings):
        Turn(pk=uuid.uuid4()).save()

    monkeypatch.setattr(turn_transaction.turn_store, "insert", refuse)
    ask(client, user)
    assert [text for _, text, _ in calls.stored(user)] == ["hi", "Hello from the fake."]
    assert "could not store the record" in caplog.text


LIMITED = {"metadata": {"tokens_per_day": "1000000"}}
"""A high limit, so that there is a counter to charge."""


def charged(user: str) -> int:
    """Return the tokens charged to a user's day."""
    subject = usage_limits.user_subject(identity.derive_user_id(user))
    return UsageCounter.objects.get(subject=subject, window=time_windows.DAY).tokens


def test_turn_is_charged_when_messages_cannot_be_stored(
    server, fake, user, monkeypatch
):
    def refuse(*arguments, **more):
        raise DataError("not text")

    monkeypatch.setattr(turn_transaction.message_store, "append_turn", refuse)
    calls.refused(server, body(user, "hi", **LIMITED), 500)
    assert turns(user) == []
    assert charged(user) == 10


def test_messages_and_charge_are_stored_atomically(server, fake, user, monkeypatch):
    def refuse(record, settings):
        raise DataError("not text")

    append, tries = message_store.append_turn, []

    def once(*arguments, **more):
        tries.append(True)
        if len(tries) > 1:
            raise OperationalError("gone")
        append(*arguments, **more)

    monkeypatch.setattr(turn_transaction.turn_store, "insert", refuse)
    monkeypatch.setattr(turn_transaction.message_store, "append_turn", once)
    calls.refused(server, body(user, "hi", **LIMITED), 503)
    assert calls.stored(user) == []
    assert charged(user) == 0


def test_record_is_not_stored_when_messages_fail(server, fake, user, monkeypatch):
    def down(*arguments, **more):
        raise OperationalError("gone")

    monkeypatch.setattr(turn_transaction.message_store, "append_turn", down)
    calls.refused(server, body(user, "hi"), 503)
    assert turns(user) == []


LOOK = {"type": "function", "function": {"name": "look", "parameters": {}}}


def test_client_tool_result_completes_its_call_record(server, client, fake, user):
    fake.call_tool("look", {"at": "sky"})
    requested = ask(client, user, "Look!", tools=[LOOK])
    (call,) = requested.choices[0].message.tool_calls
    (_, waiting) = load_turn(user).calls
    assert (waiting.name, waiting.kind, waiting.result, waiting.seconds) == (
        "look",
        "client",
        None,
        None,
    )
    for result in ("blue", "not blue"):
        answer = {"role": "tool", "tool_call_id": call.id, "content": result}
        ask(client, user, tools=[LOOK], messages=[answer])
    first = min(turns(user), key=lambda turn: turn.started_at)
    (_, done) = turn_store.load_record(first.pk).calls
    assert done.result == "blue"
    assert done.seconds > 0


def test_result_is_not_written_to_another_users_turn(server, client, fake, user):
    fake.call_tool("look", {})
    (call,) = ask(client, user, tools=[LOOK]).choices[0].message.tool_calls
    calling = {
        "id": call.id,
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
    }
    messages = [
        calls.user_message("hi"),
        {"role": "assistant", "tool_calls": [calling]},
        {"role": "tool", "tool_call_id": call.id, "content": "mine"},
    ]
    ask(client, f"{user}-other", tools=[LOOK], messages=messages)
    assert load_turn(user).calls[1].result is None
