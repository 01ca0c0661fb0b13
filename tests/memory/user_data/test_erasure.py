"""Erasure removes all data of a user and no data of others."""

import subprocess
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from config import live as configuration
from core.ids import UserId, new_turn_id
from core.messages import Message
from database import user_data
from memory.errors import UserErased
from memory.extraction import extraction_worker, llm_call
from memory.models import Erasure, Fact, Owner, PendingErasure, Thread
from memory.recall import embedding, search
from memory.recall.index import corpus_cache
from memory.recall.types import Query
from memory.transcript import message_cache, message_store
from memory.transcript.message_rows import NewMessage
from memory.user_data import erasure, export
from tasks.models import Task
from telemetry.models import Turn
from tests.memory import extraction_harness
from tests.memory.extraction_harness import claim
from tests.memory.transcript.reading import recent
from tests.memory.user_data.sample_user import (
    count_rows,
    store_conversation,
    store_fact,
    store_user_data,
)
from tests.telemetry.sample_turns import model_call, store_turn, tool_call

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

NOW = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)


@pytest.fixture
def neighbour(owner: UserId) -> UserId:
    """A user whose id differs only in the last bit."""
    return UserId(uuid.UUID(int=owner.int ^ 1))


def test_erasure_leaves_no_row_in_any_table(owner):
    store_user_data(owner)
    before = count_rows(owner)
    assert all(before.values()), "a table this test has not filled"
    erasure.erase_user(owner)
    assert not any(count_rows(owner).values())


def test_erasure_preview_counts_equal_deleted_rows(owner):
    store_user_data(owner)
    would_delete = erasure.count_rows(owner)
    assert would_delete == {
        "tasks": 1,
        "call_receipts": 1,
        "smoke_messages": 1,
        "smoke_runs": 1,
        "scores": 1,
        "feedback": 1,
        "completions": 1,
        "passages": 2,
        "fact_messages": 1,
        "pending_forgettings": 1,
        "agent_states": 1,
        "sessions": 1,
        "fact_changes": 2,
        "facts": 2,
        "extraction_jobs": 1,
        "summaries": 1,
        "messages": 8,
        "threads": 2,
        "model_calls": 2,
        "tool_calls": 1,
        "turns": 1,
        "mcp_tokens": 1,
        "files": 1,
        "safety_incidents": 1,
        "owners": 1,
    }
    assert erasure.erase_user(owner) == would_delete
    assert not any(erasure.count_rows(owner).values())


def test_erasure_leaves_other_users_untouched(owner, neighbour):
    store_user_data(owner, "plums")
    store_user_data(neighbour, "pears")
    before = count_rows(neighbour), b"".join(export.iter_chunks(neighbour))[:50]
    erasure.erase_user(owner)
    assert (
        count_rows(neighbour),
        b"".join(export.iter_chunks(neighbour))[:50],
    ) == before


def test_erasure_of_unknown_user_succeeds(owner):
    assert set(erasure.erase_user(owner).values()) == {0}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="has no such file")
def test_erased_text_is_nowhere_in_the_database_file(owner):
    secret = f"secret{uuid.uuid4().hex}"
    store_user_data(owner, secret)
    path = connection.settings_dict["NAME"]
    assert secret in file_and_log(path)
    erasure.erase_user(owner)
    assert secret not in file_and_log(path)


def file_and_log(path: str) -> str:
    # In another process: closing these files drops all locks on them, and the next
    # process to use the database would assume that it is the only one.
    files = [path, f"{path}-wal"]
    return subprocess.run(
        ["cat", *files], capture_output=True, check=True
    ).stdout.decode("latin1")


def test_erasure_clears_the_message_cache(owner):
    store_conversation(owner, "plums")
    assert recent(owner, "", max_tokens=1000).messages
    search.search_facts(owner, Query("plums"), limit=1)
    erasure.erase_user(owner)
    assert message_cache.MESSAGE_CACHE.get((owner, "")) is None
    assert owner not in corpus_cache._cache
    assert not recent(owner, "", max_tokens=1000).messages
    store_conversation(owner, "pears")
    messages = recent(owner, "", max_tokens=1000).messages
    assert "plums" not in str(messages)


def test_erasure_is_one_transaction(owner, monkeypatch):
    store_user_data(owner)
    before = count_rows(owner)
    delete = erasure._delete_rows

    def broken(rows):
        if rows.model is Thread:
            raise RuntimeError("power cut")
        return delete(rows)

    monkeypatch.setattr(erasure, "_delete_rows", broken)
    with pytest.raises(RuntimeError):
        erasure.erase_user(owner)
    assert count_rows(owner) == before


def test_foreign_keys_to_erased_tables_are_indexed():
    """Deleting a row makes the database look for rows that refer to it."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        slow = [
            f"{table}.{found['columns'][0]}"
            for table in tables
            if table.startswith(("memory_", "telemetry_"))
            for constraints in [
                connection.introspection.get_constraints(cursor, table).values()
            ]
            for found in constraints
            if found["foreign_key"]
            and not any(
                other["columns"][:1] == found["columns"]
                for other in constraints
                if other["index"] or other["unique"] or other["primary_key"]
            )
        ]
    assert slow == []


def test_erasure_repeats_after_a_concurrent_write(owner, monkeypatch):
    store_user_data(owner)
    delete, intruders = erasure._delete_rows, [1, 2]

    def intrude(rows):
        if rows.model is Thread and intruders:
            intruders.pop()
            store_conversation(owner, "late")
        return delete(rows)

    monkeypatch.setattr(erasure, "_delete_rows", intrude)
    erasure.erase_user(owner)
    assert not any(count_rows(owner).values())


def test_erasure_repeats_when_a_turn_ends_meanwhile(owner, monkeypatch):
    store_user_data(owner)
    delete, intruders = erasure._delete_rows, [1]

    def intrude(rows):
        if rows.model is Turn and intruders:
            intruders.pop()
            store_turn(model_call(), tool_call(), user_id=owner)
        return delete(rows)

    monkeypatch.setattr(erasure, "_delete_rows", intrude)
    erasure.erase_user(owner)
    assert not any(count_rows(owner).values())


def test_erased_user_can_keep_talking_and_starts_anew(owner):
    """Data stored meanwhile is complete: a thread with all its messages."""
    store_user_data(owner)
    stop = threading.Event()

    def speak() -> None:
        while not stop.is_set():
            store_conversation(owner, "more")
        connection.close()

    speaker = threading.Thread(target=speak)
    speaker.start()
    for _ in range(5):
        erasure.erase_user(owner)
    stop.set()
    speaker.join()
    for thread in Thread.objects.filter(user_id=owner):
        positions = thread.messages.order_by("position").values_list("position")
        assert [p for (p,) in positions] == list(range(thread.length))
    assert not Fact.objects.filter(user_id=owner).exists()


def test_erasure_waits_for_a_concurrent_writer(owner):
    """It waits although neither finds a row of the user to lock."""
    with transaction.atomic():
        Owner.objects.lock(owner, NOW)
        eraser = threading.Thread(target=erase_in_thread, args=[owner])
        eraser.start()
        eraser.join(0.1)
        store_fact(owner, "Likes plums")
    eraser.join()
    assert not any(count_rows(owner).values())


def erase_in_thread(user_id: UserId) -> None:
    erasure.erase_user(user_id)
    connection.close()


# Extraction jobs.


@pytest.fixture
def job(database, fake, tmp_path, owner, monkeypatch) -> Iterator[Task]:
    """A turn that a worker is processing."""
    before = configuration._current
    extraction_harness.load_config(fake, tmp_path / "coulisse.yaml")
    Task.objects.extractions().delete()
    extraction_harness.add_turn(owner, "I moved to Lisbon last week.", "How nice!")
    taken = claim()
    yield taken
    configuration.set_current(before)


SAID = '[{"content": "Lives in Lisbon.", "quote": "I moved to Lisbon last week"}]'


def test_erasure_during_extraction_stores_no_facts(job, owner, monkeypatch):
    def answer(*args, **kwargs):
        erasure.erase_user(owner)
        return SAID, True

    monkeypatch.setattr(llm_call, "call_model", answer)
    extraction_worker.run(job)
    assert not any(count_rows(owner).values())


def test_extraction_without_erasure_stores_the_fact(job, owner, monkeypatch):
    monkeypatch.setattr(llm_call, "call_model", lambda *args, **kwargs: (SAID, True))
    extraction_worker.run(job)
    assert Fact.objects.get(user_id=owner).content == "Lives in Lisbon."


def test_erasure_during_embedding_stores_no_passages(job, owner, monkeypatch):
    vectors = embedding.embed_texts

    def embed(embedder, texts):
        erasure.erase_user(owner)
        return vectors(embedder, texts)

    monkeypatch.setattr(embedding, "embed_texts", embed)
    extraction_worker.run(job)
    assert not any(count_rows(owner).values())


# Confirmations.


def test_erasure_runs_once_confirmed(owner):
    store_user_data(owner)
    request = erasure.request_erasure(owner, now=NOW)
    assert request.would_delete == erasure.count_rows(owner)
    assert request.expires_at == NOW + timedelta(minutes=15)
    assert count_rows(owner)["memory.Thread"] == 2
    assert (
        erasure.confirm_erasure(owner, request.confirmation, now=NOW)
        == request.would_delete
    )
    assert not any(count_rows(owner).values())


def test_confirmation_works_only_once(owner):
    request = erasure.request_erasure(owner)
    erasure.confirm_erasure(owner, request.confirmation)
    store_fact(owner, "Came back")
    with pytest.raises(erasure.ConfirmationInvalid):
        erasure.confirm_erasure(owner, request.confirmation)
    assert Fact.objects.filter(user_id=owner).exists()


def test_only_the_last_confirmation_is_valid(owner):
    first, last = erasure.request_erasure(owner), erasure.request_erasure(owner)
    with pytest.raises(erasure.ConfirmationInvalid):
        erasure.confirm_erasure(owner, first.confirmation)
    erasure.confirm_erasure(owner, last.confirmation)


def test_confirmation_expires(owner):
    store_user_data(owner)
    before = count_rows(owner)
    request = erasure.request_erasure(owner, now=NOW)
    expiry = NOW + timedelta(minutes=15)
    with pytest.raises(erasure.ConfirmationExpired):
        erasure.confirm_erasure(owner, request.confirmation, now=expiry)
    assert count_rows(owner) == before
    erasure.confirm_erasure(
        owner, request.confirmation, now=expiry - timedelta(seconds=1)
    )


@pytest.mark.parametrize("confirmation", ["", "yes", "ü\0", "x" * 10_000])
def test_wrong_confirmation_is_refused(owner, confirmation):
    erasure.request_erasure(owner)
    with pytest.raises(erasure.ConfirmationInvalid):
        erasure.confirm_erasure(owner, confirmation)


def test_confirmation_of_another_user_is_refused(owner, neighbour):
    Owner.objects.create(user_id=owner, created_at=NOW)
    erasure.request_erasure(owner)
    foreign = erasure.request_erasure(neighbour).confirmation
    with pytest.raises(erasure.ConfirmationInvalid):
        erasure.confirm_erasure(owner, foreign)
    assert Owner.objects.filter(user_id=owner).exists()


def test_only_the_confirmation_digest_is_stored(owner):
    request = erasure.request_erasure(owner)
    stored = PendingErasure.objects.get(user_id=owner)
    assert request.confirmation not in str(vars(stored))
    assert len(stored.confirmation_digest) == 64


def test_concurrent_second_confirmation_is_refused(owner):
    request = erasure.request_erasure(owner)
    digest = erasure.hash_confirmation(request.confirmation)
    erasure.erase_user(owner, confirmation_digest=digest)
    store_fact(owner, "Came back")
    with pytest.raises(erasure.ConfirmationInvalid):
        erasure.erase_user(owner, confirmation_digest=digest)
    assert Fact.objects.filter(user_id=owner).exists()


def test_tables_are_erased_in_this_order():
    found = [table.name for table in user_data.erasable()]
    assert found == [
        "tasks",
        "call_receipts",
        "scores",
        "feedback",
        "smoke_messages",
        "smoke_runs",
        "agent_states",
        "sessions",
        "pending_forgettings",
        "fact_messages",
        "completions",
        "passages",
        "fact_changes",
        "facts",
        "extraction_jobs",
        "summaries",
        "messages",
        "threads",
        "model_calls",
        "tool_calls",
        "turns",
        "mcp_tokens",
        "files",
        "safety_incidents",
        "owners",
    ]


def test_lists_are_exported_in_this_order():
    found = [each.export.name for each in user_data.tables() if each.export]
    assert found == [
        "threads",
        "completions",
        "memories",
        "summaries",
        "agent_states",
        "extraction_jobs",
        "passages",
        "sessions",
        "turns",
        "connections",
        "api_tokens",
        "files",
        "tasks",
        "scores",
        "feedback",
        "smoke_messages",
        "smoke_runs",
    ]


# Running turns.


def test_erasures_are_noted_without_the_user_for_a_day(owner):
    before = set(Erasure.objects.values_list("pk", flat=True))
    erasure.erase_user(owner)
    erasure.erase_user(owner)
    (note,) = Erasure.objects.exclude(pk__in=before)
    assert owner.hex not in note.user_digest
    assert not Erasure.objects.expired(note.at + timedelta(hours=23)) & own(note)
    assert Erasure.objects.expired(note.at + timedelta(hours=25)) & own(note)


def own(note: Erasure):
    return Erasure.objects.filter(pk=note.pk)


def test_turn_that_began_before_an_erasure_is_not_stored(owner, neighbour):
    before = timezone.now()
    erasure.erase_user(owner)
    for entries in ((), [NewMessage(Message("user", "plums"))]):
        with pytest.raises(UserErased), transaction.atomic():
            append(owner, entries, before)
        append(owner, entries, timezone.now())
        append(neighbour, entries, before)
    assert Thread.objects.get(user_id=owner).length == 1


def append(user_id: UserId, entries, begun_at: datetime) -> None:
    message_store.append_turn(user_id, "", new_turn_id(), entries, begun_at=begun_at)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="has one writer")
def test_turn_that_ends_during_an_erasure_is_not_stored(owner, monkeypatch):
    """It waits for the erasure, which has locked its thread."""
    store_conversation(owner, "plums")
    failed: list[Exception] = []

    def end_turn() -> None:
        try:
            append(owner, [NewMessage(Message("user", "plums"))], began)
        except UserErased as exc:
            failed.append(exc)
        connection.close()

    began, speaker = timezone.now(), threading.Thread(target=end_turn)
    delete = erasure._delete_rows

    def delete_meanwhile(rows):
        if not speaker.ident:
            speaker.start()
            speaker.join(0.2)
        return delete(rows)

    monkeypatch.setattr(erasure, "_delete_rows", delete_meanwhile)
    erasure.erase_user(owner)
    speaker.join()
    assert len(failed) == 1
    assert not any(count_rows(owner).values())
