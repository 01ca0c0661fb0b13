"""Turn details that users see only if the operator allows it."""

import uuid

import pytest

from access.users import identity
from memory.user_data import export
from telemetry.schemas import StudioTurn
from telemetry.storage import turn_store
from tests.conftest import CONFIG
from tests.gateway.calls import ask
from tests.telemetry.sample_turns import nested_calls, store_turn

pytestmark = pytest.mark.database

TURNS, EXPORT = "/v1/turns", "/v1/users/me/export"
SHOWN = CONFIG + "\ntelemetry: {sqlite: {show_to_users: true}}\n"
HIDDEN = CONFIG + "\ntelemetry: {sqlite: {show_to_users: false}}\n"

OUTLINE = {
    "id",
    "object",
    "completion_id",
    "user_id",
    "thread_id",
    "agent",
    "experiment",
    "variant",
    "origin",
    "user_message",
    "stream",
    "started_at",
    "seconds",
    "outcome",
    "finish_reason",
    "usage",
    "cost_usd",
    "request_id",
}


def put_of(memory_client, **fields):
    return store_turn(
        *nested_calls(), user_id=identity.derive_user_id(memory_client.user), **fields
    )


def is_hidden(memory_client, path: str, **query) -> bool:
    refusal = memory_client.refused("GET", path, 404, **query)
    assert refusal["type"] == "invalid_request_error"
    assert "telemetry" not in refusal["message"]
    return refusal["code"] == "turns_hidden"


@pytest.mark.parametrize("text", [CONFIG, HIDDEN])
def test_turns_are_hidden_by_default(memory_client, configure, text):
    configure(text)
    turn = put_of(memory_client)
    assert is_hidden(memory_client, TURNS)
    assert is_hidden(memory_client, f"{TURNS}/{turn.turn_id}")


def test_hidden_turn_is_answered_like_an_unknown_one(memory_client):
    for name in (put_of(memory_client).turn_id, uuid.uuid4(), "x"):
        assert is_hidden(memory_client, f"{TURNS}/{name}")
    assert is_hidden(memory_client, TURNS, after=str(uuid.uuid4()))


def test_visibility_edit_applies_at_once(memory_client, configure):
    turn = put_of(memory_client)
    configure(SHOWN)
    assert memory_client.get(f"{TURNS}/{turn.turn_id}") == StudioTurn.serialize(turn)
    assert len(memory_client.get(TURNS)["data"]) == 1
    configure(HIDDEN)
    assert is_hidden(memory_client, TURNS)


def test_hidden_turns_are_still_recorded(client, fake, user):
    answer = ask(client, user)
    turn_id = uuid.UUID(answer.id.removeprefix("chatcmpl-"))
    assert len(turn_store.load_record(turn_id).calls) == 1


# The export.


def test_an_export_outlines_hidden_turns(memory_client):
    turn = put_of(
        memory_client, outcome="error", error="openai refused: sk-secret is no key"
    )
    response = memory_client.send("GET", EXPORT)
    [result] = response.json()["turns"]
    whole = StudioTurn.serialize(turn)
    assert result.keys() == OUTLINE
    assert result.items() <= whole.items()
    for name in ("gpt-test", "calculator", "sk-secret"):
        assert name in str(whole)
        assert name not in response.text


def test_export_includes_visible_turns_in_full(memory_client, configure):
    configure(SHOWN)
    turn = put_of(memory_client)
    assert memory_client.get(EXPORT)["turns"] == [StudioTurn.serialize(turn)]


def test_long_export_keeps_its_initial_visibility(
    memory_client, configure, monkeypatch
):
    monkeypatch.setattr(export, "TURNS_PER_READ", 2)
    for _ in range(5):
        put_of(memory_client)
    result = memory_client.get(EXPORT)["turns"]
    assert len(result) == 5
    assert all(turn.keys() == OUTLINE for turn in result)


KEEPER = """
  - name: keeper
    provider: openai
    model: gpt-test
    memory_tools: true
"""
LOOK = {"type": "function", "function": {"name": "look", "parameters": {}}}


@pytest.mark.parametrize("shows", [True, False])
def test_own_tool_calls_follow_turn_visibility_in_history(
    client, fake, memory_client, configure, shows
):
    setting = f"telemetry: {{sqlite: {{show_to_users: {str(shows).lower()}}}}}\n"
    configure(CONFIG + KEEPER + setting)
    fake.reply("Wait.", tool_calls=[("search_memory", {"query": "inside"})])
    fake.reply(tool_calls=[("search_memory", {"query": "inside"}), ("look", {})])
    ask(client, memory_client.user, "Look!", agent="keeper", tools=[LOOK])
    fake.reply("Nothing.")
    call = {"role": "tool", "tool_call_id": "call_1", "content": "dark"}
    ask(client, memory_client.user, agent="keeper", tools=[LOOK], messages=[call])
    [thread] = memory_client.get(EXPORT)["threads"]
    result = [
        (
            message["role"],
            message["content"],
            [call["name"] for call in message["tool_calls"]],
        )
        if "tool_calls" in message
        else (message["role"], message["content"])
        for message in thread["messages"]
    ]
    assert ("inside" in str(thread)) is shows
    if not shows:
        assert result == [
            ("user", "Look!"),
            ("assistant", "Wait."),
            ("assistant", None, ["look"]),
            ("tool", "dark"),
            ("assistant", "Nothing."),
        ]
