"""What clients answer is put where they were asked, once."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from core.ids import UserId
from telemetry.models import ToolCall
from telemetry.storage import client_tool_results, stored_text, turn_store
from tests.telemetry.turns import SECOND, put, settings, tool_call

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

NOW = datetime.now(UTC)


@pytest.fixture
def owner() -> UserId:
    return UserId(uuid.uuid4())


def asked(call_id: str = "call_1", **fields):
    """A call that a client was handed."""
    given = {"kind": "client", "id": call_id, "result": None, "seconds": None}
    begun = datetime.now(UTC) - SECOND
    return tool_call("look", **{**given, "started_at": begun, **fields})


def ask(owner, *calls, before: timedelta = timedelta(), **fields):
    """Keep a turn that began so long ago; without calls, with one that waits."""
    calls = calls or (asked(),)
    return put(*calls, user_id=owner, started_at=NOW - before, **fields)


def answer(owner, results, **fields) -> None:
    client_tool_results.store_results(owner, results, settings(**fields))


def told(turn) -> list[str | None]:
    return [call.result for call in turn_store.load_record(turn.turn_id).calls]


def test_results_are_put_down_with_the_time_they_took(owner):
    turn = ask(owner, asked("a"), asked("b"), asked("c"))
    answer(owner, {"a": "blue", "b": "", "other": "no"})
    assert told(turn) == ["blue", "", None]
    first, _, third = turn_store.load_record(turn.turn_id).calls
    assert 1 <= first.seconds < 60
    assert third.seconds is None


def test_the_first_answer_counts(owner):
    turn = ask(owner)
    answer(owner, {"call_1": "blue"})
    answer(owner, {"call_1": "not blue"})
    assert told(turn) == ["blue"]


def test_the_first_answer_counts_of_two_at_once(owner, monkeypatch):
    turn = ask(owner)

    def payload(said, most_bytes):
        ToolCall.objects.filter(turn=turn.turn_id).update(result="the other's")
        return said

    monkeypatch.setattr(stored_text, "truncate_payload", payload)
    answer(owner, {"call_1": "mine"})
    assert told(turn) == ["the other's"]


def test_only_a_clients_call_waits_for_a_client(owner):
    turn = ask(owner, asked(kind="mcp"))
    answer(owner, {"call_1": "blue"})
    assert told(turn) == [None]


def test_of_calls_with_one_id_the_newest_is_answered(owner):
    """Some servers count the calls of each reply anew."""
    older, newer = ask(owner, before=2 * SECOND), ask(owner, before=SECOND)
    answer(owner, {"call_1": "blue"})
    assert (told(older), told(newer)) == ([None], ["blue"])


def test_an_answer_is_for_one_of_the_latest_turns(owner):
    late = ask(
        owner, asked("late"), before=client_tool_results.MAX_TURNS_SEARCHED * SECOND
    )
    kept = ask(
        owner,
        asked("kept"),
        before=(client_tool_results.MAX_TURNS_SEARCHED - 1) * SECOND,
    )
    for number in range(client_tool_results.MAX_TURNS_SEARCHED - 1):
        ask(owner, tool_call(), before=number * SECOND)
    answer(owner, {"late": "blue", "kept": "blue"})
    assert (told(late), told(kept)) == ([None], ["blue"])


def test_another_users_turn_is_left_alone(owner):
    turn = ask(owner)
    answer(UserId(uuid.uuid4()), {"call_1": "blue"})
    assert told(turn) == [None]


def test_nothing_is_put_down_where_turns_are_not_recorded(owner):
    turn = ask(owner)
    answer(owner, {"call_1": "blue"}, enabled=False)
    assert told(turn) == [None]


def test_a_long_result_is_cut(owner):
    turn = ask(owner)
    answer(owner, {"call_1": "x" * 300}, max_payload_bytes=256)
    [result] = told(turn)
    assert len(result.encode()) == 256
    assert result.endswith("(cut: 300 bytes)")


def test_a_long_id_is_found_as_it_was_stored(owner):
    turn = ask(owner, asked("é\0" + "x" * 300))
    answer(owner, {"é\0" + "x" * 300: "blue"})
    assert told(turn) == ["blue"]


def test_a_clock_that_was_put_back_makes_no_negative_time(owner):
    turn = ask(owner, asked(started_at=NOW + timedelta(hours=1)))
    answer(owner, {"call_1": "blue"})
    assert turn_store.load_record(turn.turn_id).calls[0].seconds == 0
