"""Searches find only the user's own data, also while others write."""

import threading
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.ids import UserId
from memory.models import Fact, Passage, StoredMessage
from memory.models import StoredMessage as MessageRow
from memory.recall import search
from memory.recall.types import Query
from tests.memory.recall.index_harness import (
    find_facts,
    index_fact,
    index_messages,
    index_size,  # noqa: F401  autouse
    vector,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def stranger() -> UserId:
    return UserId(uuid.uuid4())


# Isolation of users.


def test_users_with_equal_texts_find_only_their_own(owner, stranger):
    for user in (owner, stranger):
        for number in range(4):
            index_fact(user, f"tea {number}", vector(1, number))
        index_messages(user, "tea with milk", "hm", vectors=[vector(1)])
    query = Query("tea milk", vector(1))
    for _ in range(2):
        for user in (owner, stranger):
            found_facts, found_messages = search.search_facts_and_messages(
                user, query, facts=9, messages=9
            )
            near = search.nearest_facts(user, vector(1), limit=9)
            ids = {f.fact.id for f in found_facts} | {fact for fact, _ in near}
            assert set(Fact.objects.filter(id__in=ids).values_list("user_id")) == {
                (user,)
            }
            assert len(ids) == 4
            owners = MessageRow.objects.filter(id__in=[m.id for m in found_messages])
            assert set(owners.values_list("thread__user_id")) == {(user,)}
    assert search.search_facts_and_messages(
        UserId(uuid.uuid4()), query, facts=9, messages=9
    ) == ([], [])


def test_sources_of_another_users_passage_are_not_loaded(owner, stranger):
    index_fact(owner, "tea")
    index_messages(owner, "tea")
    ids = list(Passage.objects.filter(user_id=owner).values_list("id", flat=True))
    assert (
        len(Fact.objects.by_passage(owner, ids)),
        len(StoredMessage.objects.by_passage(owner, ids)),
    ) == (1, 1)
    assert (
        Fact.objects.by_passage(stranger, ids),
        StoredMessage.objects.by_passage(stranger, ids),
    ) == ({}, {})


def test_user_cannot_unindex_another_users_fact(owner, stranger):
    fact = index_fact(owner, "cello")
    Passage.objects.unindex(stranger, fact__in=[fact])
    assert find_facts(owner, "cello") == ["cello"]


def test_parallel_reads_and_writes_do_not_conflict(owner):
    total = 30
    index_fact(owner, "cello 0", vector(1))
    failures: list[object] = []
    stopped = threading.Event()

    def read() -> None:
        largest = 0
        try:
            while not stopped.is_set():
                found = len(find_facts(owner, "cello", vector(1), limit=99))
                assert found >= largest, (found, largest)
                largest = found
        except BaseException as exc:  # reported to the test
            failures.append(exc)
        finally:
            connection.close()

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, total):
        index_fact(owner, f"cello {number}", vector(1, number))
    stopped.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert len(find_facts(owner, "cello", vector(1), limit=99)) == total


def test_search_query_count_does_not_grow_with_data(owner):
    counts = []
    for count in (3, 40):
        for number in range(count):
            index_fact(owner, f"tea {number}", vector(1, number))
        index_messages(owner, *(f"tea {n}" for n in range(count)))
        find_facts(owner, "tea", vector(1))
        with CaptureQueriesContext(connection) as queries:
            search.search_facts_and_messages(
                owner, Query("tea", vector(1)), facts=5, messages=5
            )
        counts.append(len(queries))
    expected = 3 if connection.vendor == "sqlite" else 9
    assert counts == [expected, expected]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no planner")
def test_fact_word_search_is_limited_to_the_user(owner):
    index_fact(owner, "tea")
    asked = []

    def note(execute, sql, params, many, context):
        asked.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        assert find_facts(owner, "tea") == ["tea"]
    ((sql, params),) = (each for each in asked if "tsquery" in each[0])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}", params)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    # The query must not use the index of all facts.
    assert "words.query" in plan
    assert "fact_id" not in plan
