"""Results of clients' tools are stored with their calls, once."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from core.ids import UserId
from telemetry.models import ToolCall
from telemetry.storage import client_tool_results, stored_text, turn_store
from tests.telemetry.sample_turns import SECOND, settings, store_turn, tool_call

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

NOW = datetime.now(UTC)


@pytest.fixture
def owner() -> UserId:
    return UserId(uuid.uuid4())


def client_call(call_id: str = "call_1", **fields):
    """Return a call of a client's tool."""
    given = {"kind": "client", "id": call_id, "result": None, "seconds": None}
    started_at = datetime.now(UTC) - SECOND
    return tool_call("look", **{**given, "started_at": started_at, **fields})


def store_turn_with_calls(owner, *calls, before: timedelta = timedelta(), **fields):
    """Store a turn that began `before` ago; the default call waits for its result."""
    calls = calls or (client_call(),)
    return store_turn(*calls, user_id=owner, started_at=NOW - before, **fields)


def store_results(owner, results, **fields) -> None:
    client_tool_results.store_results(owner, results, settings(**fields))


def results_of(turn) -> list[str | None]:
    return [call.result for call in turn_store.load_record(turn.turn_id).calls]


def test_results_are_stored_with_their_duration(owner):
    turn = store_turn_with_calls(
        owner, client_call("a"), client_call("b"), client_call("c")
    )
    store_results(owner, {"a": "blue", "b": "", "other": "no"})
    assert results_of(turn) == ["blue", "", None]
    first, _, third = turn_store.load_record(turn.turn_id).calls
    assert 1 <= first.seconds < 60
    assert third.seconds is None


def test_first_answer_is_kept(owner):
    turn = store_turn_with_calls(owner)
    store_results(owner, {"call_1": "blue"})
    store_results(owner, {"call_1": "not blue"})
    assert results_of(turn) == ["blue"]


def test_first_of_two_concurrent_answers_is_kept(owner, monkeypatch):
    turn = store_turn_with_calls(owner)

    def payload(text, most_bytes):
        ToolCall.objects.filter(turn=turn.turn_id).update(result="the other's")
        return text

    monkeypatch.setattr(stored_text, "truncate_payload", payload)
    store_results(owner, {"call_1": "mine"})
    assert results_of(turn) == ["the other's"]


def test_only_client_calls_accept_client_results(owner):
    turn = store_turn_with_calls(owner, client_call(kind="mcp"))
    store_results(owner, {"call_1": "blue"})
    assert results_of(turn) == [None]


def test_newest_of_calls_with_one_id_is_answered(owner):
    """Some servers restart the numbering of calls with each reply."""
    older, newer = (
        store_turn_with_calls(owner, before=2 * SECOND),
        store_turn_with_calls(owner, before=SECOND),
    )
    store_results(owner, {"call_1": "blue"})
    assert (results_of(older), results_of(newer)) == ([None], ["blue"])


def test_only_the_latest_turns_accept_answers(owner):
    late = store_turn_with_calls(
        owner,
        client_call("late"),
        before=client_tool_results.MAX_TURNS_SEARCHED * SECOND,
    )
    recent = store_turn_with_calls(
        owner,
        client_call("kept"),
        before=(client_tool_results.MAX_TURNS_SEARCHED - 1) * SECOND,
    )
    for number in range(client_tool_results.MAX_TURNS_SEARCHED - 1):
        store_turn_with_calls(owner, tool_call(), before=number * SECOND)
    store_results(owner, {"late": "blue", "kept": "blue"})
    assert (results_of(late), results_of(recent)) == ([None], ["blue"])


def test_turn_of_another_user_is_not_changed(owner):
    turn = store_turn_with_calls(owner)
    store_results(UserId(uuid.uuid4()), {"call_1": "blue"})
    assert results_of(turn) == [None]


def test_disabled_telemetry_stores_no_results(owner):
    turn = store_turn_with_calls(owner)
    store_results(owner, {"call_1": "blue"}, enabled=False)
    assert results_of(turn) == [None]


def test_long_result_is_truncated(owner):
    turn = store_turn_with_calls(owner)
    store_results(owner, {"call_1": "x" * 300}, max_payload_bytes=256)
    [result] = results_of(turn)
    assert len(result.encode()) == 256
    assert result.endswith("(cut: 300 bytes)")


def test_long_call_id_is_found_as_stored(owner):
    turn = store_turn_with_calls(owner, client_call("é\0" + "x" * 300))
    store_results(owner, {"é\0" + "x" * 300: "blue"})
    assert results_of(turn) == ["blue"]


def test_clock_set_back_gives_no_negative_duration(owner):
    turn = store_turn_with_calls(
        owner, client_call(started_at=NOW + timedelta(hours=1))
    )
    store_results(owner, {"call_1": "blue"})
    assert turn_store.load_record(turn.turn_id).calls[0].seconds == 0
