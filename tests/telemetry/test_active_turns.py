"""The registry of running turns, and their JSON for viewers."""

import uuid
from datetime import UTC, datetime

from core.ids import TurnId, UserId
from core.trace import ModelCall, TracedToolCall
from telemetry.live_turns import active_turns, running_turn_serializer
from telemetry.live_turns.active_turns import ActiveTurn, ActiveTurns, ChangeFlags

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


def make_turn(turn_id=None, *, calls=(), text="What is new?"):
    return ActiveTurn(
        turn_id=TurnId(turn_id or uuid.uuid4()),
        user_id=UserId(uuid.UUID(int=7)),
        thread="",
        agent="anna",
        experiment="",
        origin="chat",
        user_message=text,
        is_streamed=True,
        started_at=AT,
        calls=list(calls),
    )


def test_turn_is_listed_until_unregistered():
    turns = ActiveTurns()
    turn = make_turn()
    turns.register(turn.turn_id, lambda: turn)
    assert turns.list_turns() == [turn]
    turns.unregister(turn.turn_id)
    assert (turns.list_turns(), turns.count()) == ([], 0)


def test_turn_is_read_only_when_listed():
    turns = ActiveTurns()

    def read_turn():
        raise AssertionError("the turn was read")

    turns.register(TurnId(uuid.uuid4()), read_turn)
    assert turns.count() == 1


def test_changes_are_reported_once():
    turns = ActiveTurns()
    turn = make_turn()
    assert turns.take_changes() == ChangeFlags(
        has_ended_turns=False, has_changed_tasks=False
    )
    turns.register(turn.turn_id, lambda: turn)
    turns.unregister(turn.turn_id)
    assert turns.take_changes() == ChangeFlags(
        has_ended_turns=True, has_changed_tasks=False
    )
    turns.mark_tasks_changed()
    assert turns.take_changes() == ChangeFlags(
        has_ended_turns=False, has_changed_tasks=True
    )
    assert turns.take_changes() == ChangeFlags(
        has_ended_turns=False, has_changed_tasks=False
    )


def test_unregistering_an_unknown_turn_is_no_change():
    turns = ActiveTurns()
    turns.unregister(TurnId(uuid.uuid4()))
    assert not turns.take_changes().has_ended_turns


def test_watching_ends_after_its_time():
    now = [0.0]
    turns = ActiveTurns(clock=lambda: now[0])
    assert not turns.is_watched()
    turns.watch(5)
    turns.watch(3)
    now[0] = 4.9
    assert turns.is_watched()
    now[0] = 5.0
    assert not turns.is_watched()


def test_newest_turns_are_listed_up_to_the_maximum():
    turns = ActiveTurns()
    running = [make_turn() for _ in range(active_turns.MAX_LISTED + 5)]
    for turn in running:
        turns.register(turn.turn_id, lambda turn=turn: turn)
    assert turns.list_turns() == running[5:]
    assert turns.count() == len(running)


# Serialization.


def test_running_turn_shows_what_it_waits_for():
    turn = make_turn()

    def what():
        state = running_turn_serializer.serialize_turn(turn)["current_step"]
        return state["kind"], state["names"]

    assert what() == ("start", [])
    model = ModelCall("anna", "openai", "gpt-test")
    turn.calls.append(model)
    assert what() == ("model", ["gpt-test"])
    model.end()
    first, second = (TracedToolCall(name, "mcp", "{}") for name in ("search", "read"))
    turn.calls.extend([first, second])
    assert what() == ("tools", ["search", "read"])
    first.end(result="found")
    assert what() == ("tools", ["read"])
    second.end(error="no such file")
    assert what() == ("end", ["read"])


def test_nested_calls_are_shown():
    outer = TracedToolCall("helper", "subagent", "{}", target="bob")
    inner = TracedToolCall("search", "mcp", '{"for": "secrets"}', target="web")
    inner.end(error="it\nis down")
    model = ModelCall("bob", "openai", "gpt-small")
    outer.calls += [inner, model]
    state = running_turn_serializer.serialize_turn(make_turn(calls=[outer]))
    (call,) = state["calls"]
    assert (call["name"], call["kind"], call["target"]) == ("helper", "subagent", "bob")
    assert call["state"] == "running"
    assert call["current_step"]["names"] == ["gpt-small"]
    (within,) = call["calls"]
    assert (within["state"], within["error"]) == ("error", "it is down")
    assert state["model_calls"] == 1
    assert "secrets" not in str(state)


def test_client_tool_call_is_not_shown_as_running():
    state = running_turn_serializer.serialize_turn(
        make_turn(calls=[TracedToolCall("ask", "client", "{}", id="call_1")])
    )
    assert state["calls"][0]["state"] == "ok"
    assert state["current_step"]["kind"] == "end"


def test_message_is_one_short_line_without_secrets():
    text = f"my key is sk-{'a' * 40}\nand more " + "x" * 1000
    state = running_turn_serializer.serialize_turn(make_turn(text=text))["user_message"]
    assert "sk-a" not in state
    assert "\n" not in state
    assert len(state) == running_turn_serializer.MAX_MESSAGE_LENGTH
    assert state.endswith("…")


def test_newest_calls_are_listed_up_to_the_maximum():
    calls = [
        TracedToolCall(f"tool{n}", "mcp", "{}")
        for n in range(running_turn_serializer.MAX_CALLS + 3)
    ]
    state = running_turn_serializer.serialize_turn(make_turn(calls=calls))
    assert state["tool_calls"] == len(calls)
    assert [call["name"] for call in state["calls"]] == [c.name for c in calls[3:]]
