"""What is shown of turns that run: by the board alone, and by turns themselves."""

import uuid
from datetime import UTC, datetime

from core.ids import TurnId, UserId
from core.trace import ModelCall, TracedToolCall
from telemetry.live_turns import active_turns, running_turn_serializer
from telemetry.live_turns.active_turns import ActiveTurn, ActiveTurns, ChangeFlags

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


def a_turn(turn_id=None, *, calls=(), said="What is new?"):
    return ActiveTurn(
        turn_id=TurnId(turn_id or uuid.uuid4()),
        user_id=UserId(uuid.UUID(int=7)),
        thread="",
        agent="anna",
        experiment="",
        origin="chat",
        user_message=said,
        is_streamed=True,
        started_at=AT,
        calls=list(calls),
    )


def test_turn_is_listed_until_unregistered():
    shown = ActiveTurns()
    turn = a_turn()
    shown.register(turn.turn_id, lambda: turn)
    assert shown.list_turns() == [turn]
    shown.unregister(turn.turn_id)
    assert (shown.list_turns(), shown.count()) == ([], 0)


def test_turn_is_read_only_when_listed():
    shown = ActiveTurns()

    def look():
        raise AssertionError("nobody asked")

    shown.register(TurnId(uuid.uuid4()), look)
    assert shown.count() == 1


def test_changes_are_reported_once():
    shown = ActiveTurns()
    turn = a_turn()
    assert shown.take_changes() == ChangeFlags(
        has_ended_turns=False, has_changed_tasks=False
    )
    shown.register(turn.turn_id, lambda: turn)
    shown.unregister(turn.turn_id)
    assert shown.take_changes() == ChangeFlags(
        has_ended_turns=True, has_changed_tasks=False
    )
    shown.mark_tasks_changed()
    assert shown.take_changes() == ChangeFlags(
        has_ended_turns=False, has_changed_tasks=True
    )
    assert shown.take_changes() == ChangeFlags(
        has_ended_turns=False, has_changed_tasks=False
    )


def test_unregistering_an_unknown_turn_is_no_change():
    shown = ActiveTurns()
    shown.unregister(TurnId(uuid.uuid4()))
    assert not shown.take_changes().has_ended_turns


def test_watching_ends_after_its_time():
    now = [0.0]
    shown = ActiveTurns(clock=lambda: now[0])
    assert not shown.is_watched()
    shown.watch(5)
    shown.watch(3)
    now[0] = 4.9
    assert shown.is_watched()
    now[0] = 5.0
    assert not shown.is_watched()


def test_newest_turns_are_listed_up_to_the_maximum():
    shown = ActiveTurns()
    turns = [a_turn() for _ in range(active_turns.MAX_LISTED + 5)]
    for turn in turns:
        shown.register(turn.turn_id, lambda turn=turn: turn)
    assert shown.list_turns() == turns[5:]
    assert shown.count() == len(turns)


# What is told of a turn.


def test_running_turn_shows_what_it_waits_for():
    turn = a_turn()

    def what():
        told = running_turn_serializer.serialize_turn(turn)["current_step"]
        return told["kind"], told["names"]

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
    told = running_turn_serializer.serialize_turn(a_turn(calls=[outer]))
    (call,) = told["calls"]
    assert (call["name"], call["kind"], call["target"]) == ("helper", "subagent", "bob")
    assert call["state"] == "running"
    assert call["current_step"]["names"] == ["gpt-small"]
    (within,) = call["calls"]
    assert (within["state"], within["error"]) == ("error", "it is down")
    assert told["model_calls"] == 1
    assert "secrets" not in str(told)


def test_client_tool_call_is_not_shown_as_running():
    told = running_turn_serializer.serialize_turn(
        a_turn(calls=[TracedToolCall("ask", "client", "{}", id="call_1")])
    )
    assert told["calls"][0]["state"] == "ok"
    assert told["current_step"]["kind"] == "end"


def test_message_is_one_short_line_without_secrets():
    said = f"my key is sk-{'a' * 40}\nand more " + "x" * 1000
    told = running_turn_serializer.serialize_turn(a_turn(said=said))["user_message"]
    assert "sk-a" not in told
    assert "\n" not in told
    assert len(told) == running_turn_serializer.MAX_MESSAGE_LENGTH
    assert told.endswith("…")


def test_newest_calls_are_listed_up_to_the_maximum():
    calls = [
        TracedToolCall(f"tool{n}", "mcp", "{}")
        for n in range(running_turn_serializer.MAX_CALLS + 3)
    ]
    told = running_turn_serializer.serialize_turn(a_turn(calls=calls))
    assert told["tool_calls"] == len(calls)
    assert [call["name"] for call in told["calls"]] == [c.name for c in calls[3:]]
