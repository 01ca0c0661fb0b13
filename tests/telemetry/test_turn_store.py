"""Stored turns are read back unchanged, and only by their user."""

import sqlite3
import uuid
from dataclasses import fields

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from core.events import Usage
from core.ids import UserId, new_turn_id
from core.trace import Call, ModelCall, TracedToolCall
from telemetry import user_data
from telemetry.models import ModelCall as ModelCallRow
from telemetry.models import ToolCall as ToolCallRow
from telemetry.models import Turn
from telemetry.storage import turn_store
from telemetry.types import TurnRecord
from tests.telemetry.sample_turns import (
    NOON,
    SECOND,
    SETTINGS,
    make_record,
    model_call,
    nested_calls,
    settings,
    store_turn,
    tool_call,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


def call_fields(call: Call) -> dict:
    """Return the stored fields of a call."""
    values = {f.name: getattr(call, f.name) for f in fields(call) if f.repr}
    if isinstance(call, TracedToolCall):
        values["calls"] = [call_fields(each) for each in call.calls]
    return values


def turn_fields(turn: Turn | TurnRecord) -> tuple:
    names = [f.name for f in fields(TurnRecord) if f.name != "calls"]
    outline = [getattr(turn, name) or None for name in names]
    return outline, [call_fields(call) for call in turn.calls]


def read(turn: TurnRecord) -> Turn:
    found = turn_store.load_record(turn.turn_id)
    assert found is not None
    return found


# Writing and reading.


def test_turn_round_trips():
    turn = store_turn(*nested_calls(), thread="trip", is_streamed=True)
    assert turn_fields(read(turn)) == turn_fields(turn)


def test_failed_turn_round_trips():
    turn = store_turn(
        outcome="error", error="no answer", finish_reason="", usage=Usage()
    )
    assert turn_fields(read(turn)) == turn_fields(turn)


def test_calls_are_numbered_by_start_time():
    turn = store_turn(*nested_calls())
    tools = ToolCallRow.objects.filter(turn=turn.turn_id).order_by("position")
    assert [(t.position, t.parent_position, t.depth, t.name) for t in tools] == [
        (1, None, 0, "add"),
        (2, None, 0, "ask_researcher"),
        (4, 2, 1, "ask_librarian"),
        (6, 2, 1, "search"),
        (8, None, 0, "slow"),
    ]
    models = ModelCallRow.objects.filter(turn=turn.turn_id).order_by("position")
    assert [(m.position, m.parent_position, m.agent) for m in models] == [
        (0, None, "assistant"),
        (3, 2, "researcher"),
        (5, 4, "librarian"),
        (7, 2, "researcher"),
        (9, None, "assistant"),
    ]
    row = Turn.objects.get(pk=turn.turn_id)
    assert (row.model_calls, row.tool_calls) == (5, 5)


def test_unknown_values_are_null():
    calls = (
        model_call(usage=None, seconds=None, cost_micro_usd=None),
        tool_call(result=None),
    )
    turn = store_turn(*calls, cost_micro_usd=None)
    row = ModelCallRow.objects.get(turn=turn.turn_id)
    assert (row.input_tokens, row.seconds, row.cost_micro_usd) == (None, None, None)
    assert ToolCallRow.objects.get(turn=turn.turn_id).result is None
    assert Turn.objects.get(pk=turn.turn_id).cost_micro_usd is None


def test_zero_is_not_null():
    turn = store_turn(model_call(usage=Usage()), tool_call(result=""))
    model, tool = read(turn).calls
    assert isinstance(model, ModelCall)
    assert isinstance(tool, TracedToolCall)
    assert (model.usage, tool.result) == (Usage(), "")


def test_turn_with_many_calls_is_stored_in_batches(monkeypatch):
    monkeypatch.setattr(turn_store, "BATCH_SIZE", 7)
    turn = store_turn(*(tool_call(str(number)) for number in range(50)))
    assert [call.name for call in read(turn).calls] == [str(n) for n in range(50)]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="it is SQLite's limit")
def test_batch_fits_in_one_statement():
    connection.ensure_connection()
    most = connection.connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
    assert min(most, 32_766) >= turn_store.BATCH_SIZE * 20


def test_turn_takes_one_insert_per_table():
    with CaptureQueriesContext(connection) as queries:
        store_turn()
        store_turn(*nested_calls())
    assert [q["sql"].split()[2] for q in queries] == [
        "telemetry_turn",
        "telemetry_turn",
        "telemetry_modelcall",
        "telemetry_toolcall",
    ]


def test_insert_joins_the_callers_transaction():
    turn = make_record(*nested_calls())
    with transaction.atomic():
        turn_store.insert(turn, SETTINGS)
        transaction.set_rollback(True)
    assert turn_store.load_record(turn.turn_id) is None


def test_disabled_telemetry_records_nothing():
    turn = make_record(*nested_calls())
    turn_store.insert(turn, settings(enabled=False))
    assert turn_store.load_record(turn.turn_id) is None


# External texts fit the columns.


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "\ud83d\ude00", "\udc80", "🙂é"])
def test_any_text_can_be_stored(text):
    turn = store_turn(
        tool_call(text, arguments=text, result=text, error=text, target=text, id=text),
        model_call(text, error=text, finish_reason=text),
        user_message=text,
        error=text,
        agent=text,
        thread=text,
        finish_reason=text,
    )
    found = read(turn)
    expected = {"\ud83d\ude00": "😀", "🙂é": "🙂é"}.get(text)
    expected = expected or text.translate(dict.fromkeys([0, 0xD800, 0xDC80], "\ufffd"))
    call = found.calls[0]
    assert isinstance(call, TracedToolCall)
    assert {call.name, call.arguments, call.result, call.error, call.target} == {
        expected
    }
    assert {found.user_message, found.error, found.agent, found.thread} == {expected}
    assert {found.finish_reason, found.calls[1].finish_reason} == {expected}


@pytest.mark.parametrize("unit", ["x", "é", "€", "🙂", "\ud800", "\0"])
def test_long_texts_are_truncated_at_a_character_boundary(unit):
    turn = make_record(tool_call(result=unit * 1000, arguments="short"))
    turn_store.insert(turn, settings(max_payload_bytes=300))
    call = read(turn).calls[0]
    assert isinstance(call, TracedToolCall)
    assert call.result is not None
    size = len(call.result.encode())
    assert 296 <= size <= 300
    character = (
        unit if len(unit.encode(errors="ignore")) > 0 and unit != "\0" else "\ufffd"
    )
    assert call.result.endswith(f"… (cut: {len(character.encode()) * 1000} bytes)")
    assert set(call.result.split("…")[0]) == {character}
    assert call.arguments == "short"


@pytest.mark.parametrize("unit", ["x", "é", "€", "🙂"])
def test_text_at_the_limit_is_whole(unit):
    text = unit * (1200 // len(unit.encode()))
    for most, is_whole in ((1200, True), (1199, False)):
        turn = make_record(tool_call(result=text))
        turn_store.insert(turn, settings(max_payload_bytes=most))
        call = read(turn).calls[0]
        assert isinstance(call, TracedToolCall)
        assert (call.result == text) is is_whole


def test_all_user_texts_are_truncated():
    long = "y" * 1000
    turn = make_record(
        tool_call(arguments=long, result=long, error=long),
        model_call(error=long),
        user_message=long,
        error=long,
    )
    turn_store.insert(turn, settings(max_payload_bytes=256))
    found = read(turn)
    tool, model = found.calls
    assert isinstance(tool, TracedToolCall)
    for text in (tool.arguments, tool.result, tool.error, model.error):
        assert len(text.encode()) <= 256
    assert max(len(found.user_message), len(found.error)) <= 256


def test_long_names_are_truncated():
    turn = store_turn(
        tool_call("n" * 3000, id="i" * 3000), model_call(finish_reason="f" * 99)
    )
    tool, model = read(turn).calls
    assert isinstance(tool, TracedToolCall)
    assert isinstance(model, ModelCall)
    assert (len(tool.name), len(tool.id), len(model.finish_reason)) == (255, 255, 32)


def test_out_of_range_counts_are_clamped():
    turn = store_turn(model_call(usage=Usage(-5, 2**80)), usage=Usage(-5, 2**80))
    try:
        assert read(turn).usage == Usage(0, 2**63 - 1)
    finally:
        # Its sum with the counts of other tests would overflow.
        Turn.objects.filter(pk=turn.turn_id).delete()


# Constraints.


def test_turn_is_recorded_once():
    turn = store_turn()
    with pytest.raises(IntegrityError), transaction.atomic():
        turn_store.insert(turn, SETTINGS)


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        (Turn, {"outcome": "fine"}),
        (ToolCallRow, {"kind": "magic"}),
        (ToolCallRow, {"parent_position": 0}),
        (ModelCallRow, {"parent_position": 5}),
        (ModelCallRow, {"position": -1}),
    ],
)
def test_database_constraints_refuse_an_invalid_tree(table, wrong):
    turn = store_turn(tool_call(), model_call())
    turn_filter = {"pk" if table is Turn else "turn": turn.turn_id}
    with pytest.raises(IntegrityError), transaction.atomic():
        table.objects.filter(**turn_filter).update(**wrong)


# Ownership.


def test_turn_of_another_user_is_not_found():
    turn = store_turn(*nested_calls())
    assert turn_store.load_record(turn.turn_id, turn.user_id) is not None
    stranger = UserId(uuid.UUID(int=turn.user_id.int ^ 1))
    assert turn_store.load_record(turn.turn_id, stranger) is None


def test_unknown_turn_is_not_found():
    assert turn_store.load_record(new_turn_id()) is None


def test_owned_rows_are_those_of_one_user():
    one, other = store_turn(*nested_calls()), store_turn(*nested_calls())
    owned = {table.name: table.rows([one.user_id]) for table in user_data.TABLES}
    counts = {name: rows.count() for name, rows in owned.items()}
    assert counts == {"model_calls": 5, "tool_calls": 5, "turns": 1}
    for name in ("model_calls", "tool_calls", "turns"):
        owned[name]._raw_delete(owned[name].db)
    assert turn_store.load_record(one.turn_id) is None
    assert len(read(other).calls) == 5


# Pages.


@pytest.fixture
def owner() -> UserId:
    return UserId(uuid.uuid4())


def ids(turns: QuerySet) -> list[uuid.UUID]:
    return [turn.turn_id for turn in turns]


def test_turns_are_listed_newest_first(owner):
    turns = [store_turn(user_id=owner, started_at=NOON + n * SECOND) for n in range(3)]
    page, has_more = Turn.objects.filter(user_id=owner).newest_first().read_page(20)
    assert [t.turn_id for t in page] == [t.turn_id for t in reversed(turns)]
    assert not has_more


def test_listed_turn_has_no_calls(owner):
    turn = store_turn(*nested_calls(), user_id=owner)
    [listed], _ = Turn.objects.filter(user_id=owner).newest_first().read_page(20)
    for name in ("turn_id", "thread", "agent", "usage", "recalled_fact_ids", "error"):
        assert getattr(listed, name) == getattr(turn, name)
    assert (listed.model_calls, listed.tool_calls) == (5, 5)


def test_pages_have_no_gaps_or_duplicates(owner):
    at_once = [store_turn(user_id=owner).turn_id for _ in range(8)]
    later = [
        store_turn(user_id=owner, started_at=NOON + SECOND).turn_id for _ in range(4)
    ]
    seen: list[uuid.UUID] = []
    turns = Turn.objects.filter(user_id=owner).newest_first()
    after, has_more = None, True
    while has_more:
        page, has_more = turns.before(after).read_page(3)
        seen += [turn.turn_id for turn in page]
        after = page[-1].started_at, page[-1].turn_id
    assert seen == [
        *sorted(later, reverse=True),
        *sorted(at_once, reverse=True),
    ]


def test_pages_can_be_filtered(owner):
    ok = store_turn(user_id=owner)
    failed = store_turn(user_id=owner, outcome="error")
    writer = store_turn(user_id=owner, agent="writer", started_at=NOON + SECOND)
    store_turn()
    assert ids(Turn.objects.filter(user_id=owner).failed()) == [failed.turn_id]
    started = Turn.objects.started_by_users().filter(user_id=owner).after(None)
    assert ids(started)[-1] == writer.turn_id
    assert {*ids(started)} == {ok.turn_id, failed.turn_id, writer.turn_id}
