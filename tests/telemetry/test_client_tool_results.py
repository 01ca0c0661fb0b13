"""What clients answer is put where they were asked, once."""

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


def asked(call_id: str = "call_1", **fields):
    """A call that a client was handed."""
    given = {"kind": "client", "id": call_id, "result": None, "seconds": None}
    begun = datetime.now(UTC) - SECOND
    return tool_call("look", **{**given, "started_at": begun, **fields})


def ask(owner, *calls, before: timedelta = timedelta(), **fields):
    """Keep a turn that began so long ago; without calls, with one that waits."""
    calls = calls or (asked(),)
    return store_turn(*calls, user_id=owner, started_at=NOW - before, **fields)


def answer(owner, results, **fields) -> None:
    client_tool_results.store_results(owner, results, settings(**fields))


def told(turn) -> list[str | None]:
    return [call.result for call in turn_store.load_record(turn.turn_id).calls]


def test_results_are_stored_with_their_duration(owner):
    turn = ask(owner, asked("a"), asked("b"), asked("c"))
    answer(owner, {"a": "blue", "b": "", "other": "no"})
    assert told(turn) == ["blue", "", None]
    first, _, third = turn_store.load_record(turn.turn_id).calls
    assert 1 <= first.seconds < 60
    assert third.seconds is None


def test_first_answer_is_kept(owner):
    turn = ask(owner)
    answer(owner, {"call_1": "blue"})
    answer(owner, {"call_1": "not blue"})
    assert told(turn) == ["blue"]


def test_first_of_two_concurrent_answers_is_kept(owner, monkeypatch):
    turn = ask(owner)

    def payload(said, most_bytes):
        ToolCall.objects.filter(turn=turn.turn_id).update(result="the other's")
        return said

    monkeypatch.setattr(stored_text, "truncate_payload", payload)
    answer(owner, {"call_1": "mine"})
    assert told(turn) == ["the other's"]


def test_only_client_calls_accept_client_results(owner):
    turn = ask(owner, asked(kind="mcp"))
    answer(owner, {"call_1": "blue"})
    assert told(turn) == [None]


def test_newest_of_calls_with_one_id_is_answered(owner):
    """Some servers count the calls of each reply anew."""
    older, newer = ask(owner, before=2 * SECOND), ask(owner, before=SECOND)
    answer(owner, {"call_1": "blue"})
    assert (told(older), told(newer)) == ([None], ["blue"])


def test_only_the_latest_turns_accept_answers(owner):
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


def test_turn_of_another_user_is_not_changed(owner):
    turn = ask(owner)
    answer(UserId(uuid.uuid4()), {"call_1": "blue"})
    assert told(turn) == [None]


def test_disabled_telemetry_stores_no_results(owner):
    turn = ask(owner)
    answer(owner, {"call_1": "blue"}, enabled=False)
    assert told(turn) == [None]


def test_long_result_is_truncated(owner):
    turn = ask(owner)
    answer(owner, {"call_1": "x" * 300}, max_payload_bytes=256)
    [result] = told(turn)
    assert len(result.encode()) == 256
    assert result.endswith("(cut: 300 bytes)")


def test_long_call_id_is_found_as_stored(owner):
    turn = ask(owner, asked("é\0" + "x" * 300))
    answer(owner, {"é\0" + "x" * 300: "blue"})
    assert told(turn) == ["blue"]


def test_clock_set_back_gives_no_negative_duration(owner):
    turn = ask(owner, asked(started_at=NOW + timedelta(hours=1)))
    answer(owner, {"call_1": "blue"})
    assert turn_store.load_record(turn.turn_id).calls[0].seconds == 0
