"""Search: by words and by meaning, one user at a time, on both databases."""

import contextlib
import threading
import uuid
from datetime import timedelta

import numpy as np
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from core.ids import UserId, new_turn_id
from core.messages import Message
from memory.facts import fact_store
from memory.models import Fact, Owner, Passage, Thread
from memory.models import StoredMessage as MessageRow
from memory.recall import passage_sources, passages, search
from memory.recall.index import numpy_index, retrieval_types, small_corpus
from memory.recall.types import Embedded, Query
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture(
    params=["few", "many"] if connection.vendor == "sqlite" else ["few"], autouse=True
)
def index_size(request, monkeypatch) -> None:
    """What a process holds of a user is searched in two ways, by how much it is."""
    if request.param == "many":
        monkeypatch.setattr(small_corpus, "MAX_PASSAGES", -1)


@pytest.fixture
def stranger() -> UserId:
    return UserId(uuid.uuid4())


def vector(*numbers: float, embedder: str = "test") -> Embedded:
    """A vector of four dimensions in a direction."""
    vector = np.zeros(4, np.float32)
    vector[: len(numbers)] = numbers
    return Embedded(embedder, vector / np.linalg.norm(vector))


def index_fact(user: UserId, content: str, embedded=None, **fields) -> uuid.UUID:
    now = timezone.now()
    fact = Fact.objects.create(
        user_id=user,
        content=content,
        source="user",
        said_at=now,
        created_at=now,
        updated_at=now,
        **fields,
    )
    passages.index_facts(user, [(fact.id, content, embedded, "")])
    return fact.id


def index_messages(user: UserId, *texts: str, thread: str = "", vectors=()) -> int:
    """Store messages, user and assistant in turns; return the thread's id."""
    roles = ("user", "assistant")
    first = MessageRow.objects.filter(thread__user_id=user, thread__name=thread).count()
    entries = [
        NewMessage(Message(roles[i % 2], text), 5) for i, text in enumerate(texts)
    ]
    message_store.append_turn(user, thread, new_turn_id(), entries)
    stored = list(
        MessageRow.objects.filter(
            thread__user_id=user, thread__name=thread, position__gte=first
        ).order_by("position")
    )
    given = [*vectors, *[None] * (len(stored) - len(vectors))]
    thread_id = Thread.objects.get(user_id=user, name=thread).id
    passages.index_messages(
        user,
        thread_id,
        [(m.id, m.position, m.text, v, "") for m, v in zip(stored, given, strict=True)],
    )
    return thread_id


def find_facts(user: UserId, text: str, embedded=None, limit=5, **options) -> list[str]:
    query = Query(
        text,
        embedded,
        **{
            k: options.pop(k)
            for k in ("similarity_threshold", "fusion")
            if k in options
        },
    )
    return [
        f.fact.content for f in search.search_facts(user, query, limit=limit, **options)
    ]


def find_messages(
    user: UserId, text: str, embedded=None, limit=5, **options
) -> list[str]:
    found = search.search_messages(user, Query(text, embedded), limit=limit, **options)
    return [message.text for message in found]


def test_fact_is_found_by_its_words(owner):
    index_fact(owner, "The user lives in Lisbon")
    index_fact(owner, "The user plays the cello")
    assert find_facts(owner, "Which city do I live in?") == ["The user lives in Lisbon"]


def test_fact_is_found_by_its_meaning(owner):
    index_fact(owner, "The user plays the cello", vector(1))
    index_fact(owner, "The user lives in Lisbon", vector(0, 1))
    assert find_facts(
        owner, "instrument", vector(1, 0.1), similarity_threshold=0.5
    ) == ["The user plays the cello"]


def test_similarity_threshold_filters_vectors_only(owner):
    index_fact(owner, "The user plays the cello", vector(1))
    assert find_facts(owner, "music", vector(1, 1), similarity_threshold=0.8) == []
    assert find_facts(owner, "cello", vector(1, 1), similarity_threshold=0.8) != []
    assert find_facts(owner, "music", vector(1, 1), similarity_threshold=0.7) != []


def test_opposite_vector_is_not_found(owner):
    index_fact(owner, "The user plays the cello", vector(-1))
    index_fact(owner, "The user plays golf", vector(0, 1))
    assert find_facts(owner, "music", vector(1)) == []


def test_zero_vector_matches_nothing(owner):
    nothing = Embedded("test", np.zeros(4, np.float32))
    index_fact(owner, "!!!", nothing)
    index_fact(owner, "cello", vector(1))
    assert find_facts(owner, "music", vector(1)) == ["cello"]
    assert find_facts(owner, "music", nothing) == []


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
def test_match_by_words_and_vector_ranks_first(owner, fusion):
    index_fact(owner, "A cello in the attic", vector(0, 1))
    index_fact(owner, "An old violin", vector(1))
    index_fact(owner, "Plays the cello", vector(1, 0.3))
    assert find_facts(owner, "cello", vector(1), fusion=fusion)[0] == "Plays the cello"


def test_score_shows_its_components(owner):
    index_fact(owner, "Plays the cello", vector(1))
    index_fact(owner, "Plays golf", vector(1, 1))
    query = Query("cello", vector(1))
    first, second = (f.score for f in search.search_facts(owner, query, limit=2))
    assert first.similarity == pytest.approx(1, abs=1e-3)
    assert second.similarity == pytest.approx(0.7071, abs=1e-3)
    assert first.terms
    assert first.total > second.total
    assert (second.terms, first.window) == (None, None)


def test_rare_words_weigh_more(owner):
    for number in range(6):
        index_fact(owner, f"The dog likes walk {number}")
    index_fact(owner, "Rex is a beagle")
    assert find_facts(owner, "dog beagle", limit=1) == ["Rex is a beagle"]


@pytest.mark.parametrize("text", ["", "the of and", "?!"])
def test_empty_query_finds_nothing(owner, text):
    index_fact(owner, "The user plays the cello", vector(1))
    assert find_facts(owner, text) == []
    assert search.search_facts_and_messages(
        owner, Query(text), facts=5, messages=5
    ) == ([], [])


def test_emoji_is_found(owner):
    index_messages(owner, "\U0001f9c1 please", "Here you are")
    assert find_messages(owner, "\U0001f9c1", limit=1) == ["\U0001f9c1 please"]


def test_other_embedders_facts_are_found_by_words_only(owner):
    index_fact(owner, "The user plays the cello", vector(1, embedder="old"))
    index_fact(owner, "The user plays golf", Embedded("test", np.ones(7, np.float32)))
    assert find_facts(owner, "music", vector(1)) == []
    assert find_facts(owner, "cello", vector(1)) == ["The user plays the cello"]


def test_search_respects_its_limit(owner):
    for number in range(9):
        index_fact(owner, f"Cello lesson {number}", vector(1, number))
    assert len(find_facts(owner, "cello", vector(1), limit=4)) == 4
    assert find_facts(owner, "cello", limit=0) == []
    assert search.nearest_facts(owner, vector(1), limit=0) == []


def test_ties_are_sorted_newest_first(owner):
    for name in ("first", "second", "third"):
        index_fact(owner, f"cello {name}")
    assert find_facts(owner, "cello") == ["cello third", "cello second", "cello first"]


# What counts now.


def test_facts_are_found_only_while_valid(owner):
    now = timezone.now()
    hour = timedelta(hours=1)
    index_fact(owner, "tea expired", expires_at=now - hour)
    index_fact(owner, "tea over", valid_to=now - hour)
    index_fact(owner, "tea to come", valid_from=now + hour)
    index_fact(owner, "tea pinned", expires_at=now - hour, is_pinned=True)
    index_fact(owner, "tea pinned and over", valid_to=now - hour, is_pinned=True)
    index_fact(owner, "tea now", expires_at=now + hour, valid_from=now - hour)
    assert set(find_facts(owner, "tea", limit=2)) == {"tea now", "tea pinned"}
    assert len(find_facts(owner, "tea", limit=9, status=None)) == 6


def test_search_filters_by_category(owner):
    for number in range(120):
        index_fact(owner, f"tea {number}", category="event")
    index_fact(owner, "tea with milk, which is a long story", category="preference")
    assert find_facts(owner, "tea", category="preference") == [
        "tea with milk, which is a long story"
    ]
    assert find_facts(owner, "tea", category="decision") == []


def test_retired_fact_in_a_stale_index_is_not_found(owner):
    fact = index_fact(owner, "The user plays the cello", vector(1))
    assert find_facts(owner, "cello")
    Fact.objects.filter(id=fact).update(status="superseded")
    assert find_facts(owner, "cello", vector(1)) == []
    assert search.nearest_facts(owner, vector(1), limit=3) == []
    assert find_facts(owner, "cello", status="superseded")


# What is new, and what is gone.


def test_new_fact_is_found_at_once(owner):
    for number in range(5):
        index_fact(owner, f"cello {number}", vector(1, number))
        assert len(find_facts(owner, "cello", vector(1))) == number + 1


def test_earlier_text_of_a_fact_is_not_found(owner):
    fact = index_fact(owner, "The user lives in Lisbon")
    assert find_facts(owner, "lisbon")
    passages.index_facts(owner, [(fact, "The user lives in Porto", None, "")])
    assert find_facts(owner, "lisbon") == []
    assert len(find_facts(owner, "porto")) == 1
    passages.unindex_facts(owner, [fact])
    assert find_facts(owner, "porto") == []


def test_rows_deleted_elsewhere_hide_no_results(owner, monkeypatch):
    for number in range(8):
        index_fact(owner, f"cello {number}")
    assert len(find_facts(owner, "cello", limit=4)) == 4
    monkeypatch.setattr(retrieval_types, "RETRIEVAL_DEPTH", 4)
    monkeypatch.setattr(numpy_index, "RETRIEVAL_DEPTH", 4)
    # Without a word to the owner's row, as a cascade does it.
    Fact.objects.filter(user_id=owner, content__gt="cello 3").delete()
    assert len(find_facts(owner, "cello", limit=4)) == 4


def test_rolled_back_fact_is_not_found(owner):
    index_fact(owner, "cello one")
    assert len(find_facts(owner, "cello")) == 1
    with contextlib.suppress(RuntimeError), transaction.atomic():
        index_fact(owner, "cello two")
        assert len(find_facts(owner, "cello")) == 2
        raise RuntimeError
    index_fact(owner, "golf")
    assert find_facts(owner, "cello") == ["cello one"]
    assert find_facts(owner, "golf") == ["golf"]


def test_erased_user_finds_only_new_facts(owner):
    index_fact(owner, "cello one")
    assert find_facts(owner, "cello")
    Fact.objects.filter(user_id=owner).delete()
    Owner.objects.filter(user_id=owner).delete()
    assert find_facts(owner, "cello") == []
    index_fact(owner, "cello two")
    assert find_facts(owner, "cello") == ["cello two"]


# Messages.


def test_message_is_found_by_its_neighbours(owner):
    index_messages(
        owner, "How was the concert?", "Loud, but lovely", "And the food?", "Fine"
    )
    assert find_messages(owner, "concert") == [
        "How was the concert?",
        "Loud, but lovely",
    ]


def test_later_neighbours_count_too(owner):
    index_messages(owner, "Where shall we go?")
    assert find_messages(owner, "porto") == []
    index_messages(owner, "To Porto")
    assert set(find_messages(owner, "porto")) == {"Where shall we go?", "To Porto"}


def test_statement_ranks_above_a_question(owner):
    index_messages(owner, "I like tea", "Hm", "x", "y", "I like tea?", "Hm", "x", "y")
    assert find_messages(owner, "like tea", limit=1) == ["I like tea"]


def test_messages_in_the_prompt_are_excluded(owner):
    thread = index_messages(owner, "tea one", "hm", "tea two", "hm", "tea three")
    index_messages(owner, "tea elsewhere", thread="other")
    assert set(find_messages(owner, "tea", limit=9, cutoff=(thread, 2))) == {
        *("tea one", "hm", "tea elsewhere")
    }


def test_message_hit_contains_every_field(owner):
    index_messages(owner, "tea", "Milk with it", thread="kitchen")
    (found, *_) = search.search_messages(owner, Query("milk"), limit=1)
    row = MessageRow.objects.get(id=found.id)
    assert (found.thread, found.position, found.role) == ("kitchen", 1, "assistant")
    assert (found.text, found.agent) == ("Milk with it", row.agent)
    assert (found.importance, found.created_at) == (row.importance, row.created_at)


def test_fact_hit_contains_every_field(owner):
    fact = index_fact(
        owner, "tea", key="drink", expires_at=timezone.now() + timedelta(1)
    )
    (found,) = search.search_facts(owner, Query("tea"), limit=1)
    assert found.fact == fact_store.stored_fact_from_row(Fact.objects.get(id=fact))


def test_combined_search_equals_separate_searches(owner):
    for number in range(3):
        index_fact(owner, f"tea fact {number}", vector(1, number))
    thread = index_messages(owner, "tea one", "hm", "tea two", vectors=[vector(1)])
    query = Query("tea", vector(1))
    assert search.search_facts_and_messages(
        owner, query, facts=2, messages=2, cutoff=(thread, 2)
    ) == (
        search.search_facts(owner, query, limit=2),
        search.search_messages(owner, query, limit=2, cutoff=(thread, 2)),
    )
    assert search.search_facts_and_messages(owner, query, facts=0, messages=1)[0] == []


def test_nearest_facts_are_found_by_vector(owner):
    near = index_fact(owner, "tea", vector(1, 0.1))
    far = index_fact(owner, "coffee", vector(1, 1))
    found = search.nearest_facts(owner, vector(1), limit=5)
    assert [fact for fact, _ in found] == [near, far]
    assert found[1][1] == pytest.approx(0.7071, abs=1e-3)


# Nobody else's.


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
        len(passage_sources.load_facts(owner, ids)),
        len(passage_sources.load_messages(owner, ids)),
    ) == (1, 1)
    assert (
        passage_sources.load_facts(stranger, ids),
        passage_sources.load_messages(stranger, ids),
    ) == ({}, {})


def test_user_cannot_unindex_another_users_fact(owner, stranger):
    fact = index_fact(owner, "cello")
    passages.unindex_facts(stranger, [fact])
    assert find_facts(owner, "cello") == ["cello"]


def test_parallel_reads_and_writes_do_not_conflict(owner):
    total = 30
    index_fact(owner, "cello 0", vector(1))
    failures: list[object] = []
    over = threading.Event()

    def read() -> None:
        most = 0
        try:
            while not over.is_set():
                found = len(find_facts(owner, "cello", vector(1), limit=99))
                assert found >= most, (found, most)
                most = found
        except BaseException as exc:  # it is told to the test
            failures.append(exc)
        finally:
            connection.close()

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, total):
        index_fact(owner, f"cello {number}", vector(1, number))
    over.set()
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
    # Nothing in it could make the planner take the index of all facts.
    assert "words.query" in plan
    assert "fact_id" not in plan
