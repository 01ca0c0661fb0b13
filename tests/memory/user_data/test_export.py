"""An export contains all data of its user and no data of others."""

import uuid
from collections.abc import Sequence
from datetime import timedelta

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.ids import UserId, new_turn_id
from core.messages import Message
from memory.models import FactChange, Passage
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from memory.user_data import erasure, export
from telemetry.schemas import StudioTurn, TurnSummary
from tests.memory.user_data.sample_user import (
    AT,
    store_conversation,
    store_fact,
    store_passage,
    store_sign_in,
    store_user_data,
)
from tests.telemetry.sample_turns import nested_calls, store_turn, tool_call

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def neighbour(owner: UserId) -> UserId:
    return UserId(uuid.UUID(int=owner.int ^ 1))


def exported(user_id: UserId) -> dict:
    return orjson.loads(b"".join(export.iter_chunks(user_id)))


def test_export_contains_all_user_data(owner):
    store_user_data(owner, "plums")
    data = exported(owner)
    assert data["object"] == "user.export"
    assert data["user_id"] == str(owner)
    assert data["settings"]["time_zone"] == "Europe/Lisbon"
    assert [thread["thread_id"] for thread in data["threads"]] == [None, "about plums"]
    counts = erasure.count_rows(owner)
    assert sum(len(t["messages"]) for t in data["threads"]) == counts["messages"]
    assert len(data["memories"]) == counts["facts"]
    assert sum(len(m["history"]) for m in data["memories"]) == counts["fact_changes"]
    for name in ("summaries", "extraction_jobs", "passages", "turns"):
        assert len(data[name]) == counts[name]


def test_export_shows_connections_without_tokens(owner):
    store_sign_in(owner, "plums")
    assert exported(owner)["connections"] == [
        {
            "server": "notes",
            "url": "https://notes.example/mcp",
            "scopes": ["read", "write"],
            "connected_at": "2026-03-04T05:06:07Z",
            "updated_at": "2026-03-04T05:06:07Z",
            "expires_at": None,
        }
    ]


def test_export_contains_messages_unchanged(owner):
    store_user_data(owner, "plums")
    first, call, result, _ = exported(owner)["threads"][0]["messages"]
    assert first["role"] == "user"
    assert first["content"] == "plums 0?"
    assert call["tool_calls"][0]["arguments"] == '{"for": "plums"}'
    assert result["tool_call_id"] == "call_0"
    assert [first["position"], call["position"]] == [0, 1]


def test_export_contains_images(owner):
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    user_message = Message("user", [{"type": "text", "text": "this?"}, picture])
    message_store.append_turn(owner, "", new_turn_id(), [NewMessage(user_message, 5)])
    assert exported(owner)["threads"][0]["messages"][0]["content"][1] == picture


def test_export_contains_the_history_of_a_fact(owner):
    fact = store_fact(owner, "Lives in Berlin", key="home", is_pinned=True)
    change = {"before": {"content": "x"}, "after": {"content": "y"}, "reason": "moved"}
    FactChange.objects.create(
        fact=fact, user_id=owner, at=AT, action="updated", by="user", **change
    )
    data = exported(owner)["memories"][0]
    assert data["id"] == f"mem_{fact.pk.hex}"
    assert data["pinned"] is True
    assert data["said_at"] == "2026-03-04T05:06:07Z"
    assert [step["action"] for step in data["history"]] == ["created", "updated"]
    assert data["history"][1].items() > change.items()


def test_export_contains_facts_of_every_status(owner):
    for status in ("active", "pending_review", "superseded", "expired", "deleted"):
        store_fact(owner, status, status=status)
    data = {memory["status"] for memory in exported(owner)["memories"]}
    assert data == {"active", "pending_review", "superseded", "expired", "deleted"}


def test_export_shows_passage_embedder_without_vector(owner):
    store_user_data(owner)
    data = exported(owner)["passages"]
    assert {passage["embedder"] for passage in data} == {"hash:2"}
    assert "vector" not in data[0]
    assert "terms" not in data[0]


def test_export_contains_turns_with_all_calls(owner):
    turn = store_turn(*nested_calls(), user_id=owner)
    [data] = exported(owner)["turns"]
    assert data == StudioTurn.serialize(turn)
    assert [call["object"] for call in data["calls"][2]["calls"]] == [
        "model_call",
        "tool_call",
        "tool_call",
        "model_call",
    ]


def outlined(user_id: UserId) -> dict:
    written, place = b"", export.ExportPosition(shows_calls=False)
    while place is not None:
        more, place = export.next_chunk(user_id, place)
        written += more
    return orjson.loads(written)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_export_can_leave_out_the_calls_of_turns(owner, count):
    store_user_data(owner)
    seconds = range(count)
    turns = [
        store_turn(
            *nested_calls(),
            user_id=owner,
            started_at=AT + timedelta(seconds=n),
            error="429",
        )
        for n in seconds
    ]
    data, whole = outlined(owner), exported(owner)
    turn_ids = {str(turn.turn_id) for turn in turns}
    assert [t for t in data["turns"] if t["id"] in turn_ids] == [
        TurnSummary.serialize(turn) for turn in turns
    ]
    assert all({"calls", "error"}.isdisjoint(turn) for turn in data["turns"])
    for document in (data, whole):
        del document["turns"], document["exported_at"]
    assert data == whole


def test_long_turns_end_a_chunk(owner, monkeypatch):
    monkeypatch.setattr(export, "MAX_CHUNK_BYTES", 1000)
    for _ in range(6):
        store_turn(tool_call(result="x" * 600), user_id=owner)
    sizes = [len(written) for written in export.iter_chunks(owner)]
    assert max(sizes) < 3000
    assert len(exported(owner)["turns"]) == 6


def test_export_of_unknown_user_is_empty(owner):
    data = exported(owner)
    lists = ("threads", "memories", "summaries", "extraction_jobs", "passages", "turns")
    assert [data[name] for name in lists] == [[]] * 6
    assert data["settings"]["time_zone"] is None


def test_export_contains_no_other_users_data(owner, neighbour):
    store_user_data(owner, "plums")
    store_user_data(neighbour, "pears")
    assert b"pears" not in b"".join(export.iter_chunks(owner))
    assert neighbour.hex not in str(exported(owner))


SIZES = [0, 1, 2, 3, 4, 5, 6, 9]


@pytest.fixture
def small_pages(monkeypatch) -> None:
    for name in (
        "PAGE_SIZE",
        "MESSAGES_PER_READ",
        "THREADS_PER_CHUNK",
        "TURNS_PER_READ",
    ):
        monkeypatch.setattr(export, name, 2)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("count", SIZES)
def test_export_chunks_join_without_gap(owner, count):
    for number in range(count):
        store_conversation(
            owner, f"t{number}", thread=f"t{number}", turns=number % 3 + 1
        )
        fact = store_fact(owner, f"fact {number}")
        store_passage(owner, fact=fact)
        # Two at the same time: their ids order them.
        store_turn(user_id=owner, started_at=AT + number // 2 * timedelta(seconds=1))
    data = exported(owner)
    assert [t["thread_id"] for t in data["threads"]] == [f"t{n}" for n in range(count)]
    for number, thread in enumerate(data["threads"]):
        positions = [message["position"] for message in thread["messages"]]
        assert positions == list(range(4 * (number % 3 + 1)))
    contents = sorted(memory["content"] for memory in data["memories"])
    assert contents == [f"fact {n}" for n in range(count)]
    assert all(len(memory["history"]) == 1 for memory in data["memories"])
    assert len(data["passages"]) == count
    assert len({turn["id"] for turn in data["turns"]}) == len(data["turns"]) == count
    instants = [turn["started_at"] for turn in data["turns"]]
    assert instants == sorted(instants)


def test_long_messages_end_a_chunk(owner, monkeypatch):
    monkeypatch.setattr(export, "MAX_CHUNK_BYTES", 1000)
    store_conversation(owner, "x" * 600, turns=5)
    sizes = [len(written) for written in export.iter_chunks(owner)]
    assert max(sizes) < 3000
    assert len(exported(owner)["threads"][0]["messages"]) == 20


def places(owner: UserId) -> Sequence[export.ExportPosition]:
    place: export.ExportPosition | None = export.START
    passed = []
    while place is not None:
        passed.append(place)
        _, place = export.next_chunk(owner, place)
    return passed


@pytest.mark.usefixtures("small_pages")
def test_chunk_can_be_requested_again(owner):
    store_user_data(owner)
    # The head contains the time of the export.
    for place in places(owner)[1:]:
        assert export.next_chunk(owner, place) == export.next_chunk(owner, place)


@pytest.mark.usefixtures("small_pages")
def test_export_stays_valid_json_when_user_is_erased(owner):
    store_user_data(owner)
    for last in range(len(places(owner))):
        written, place, number = b"", export.START, 0
        while place is not None:
            more, place = export.next_chunk(owner, place)
            written += more
            if number == last:
                erasure.erase_user(owner)
            number += 1
        assert orjson.loads(written)["object"] == "user.export"
        store_user_data(owner)


def test_export_needs_no_query_per_row(owner):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            exported(owner)
        return len(captured)

    store_user_data(owner)
    before = queries()
    for number in range(50):
        store_passage(owner, fact=store_fact(owner, f"fact {number}"))
    for _ in range(20):
        store_turn(*nested_calls(), user_id=owner)
    assert queries() == before
    assert Passage.objects.filter(user_id=owner).count() == 52
