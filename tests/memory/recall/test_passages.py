"""Passages: stored once, embedded again, and isolated by user."""

import uuid

import numpy as np
import pytest
from django.db import connection
from django.utils import timezone

from core.ids import UserId
from memory.models import Fact, Owner, Passage, passages
from memory.recall import search
from memory.recall.index import corpus_cache, term_encoding, tokenizer
from memory.recall.index.retrieval_types import (
    FactFilter,
    ParsedQuery,
    SparseRetrieverScores,
)
from memory.recall.types import Embedded
from memory.user_data import erasure
from tests.memory.recall.index_harness import (
    find_messages,
    index_fact,
    index_messages,
    vector,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

sqlite = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL holds the index itself"
)


def version(user: UserId) -> int:
    return Owner.objects.filter(user_id=user).values_list("version", flat=True)[0]


def list_passages(user: UserId) -> list[Passage]:
    return list(Passage.objects.filter(user_id=user).order_by("id"))


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("The user lives in Lisbon", "lives in Lisbon"),
        ("User's cat is called Bo", "cat is called Bo"),
        ("the user\u2019s cat", "cat"),
        ("Users like it", "Users like it"),
        ("Lives in Lisbon", "Lives in Lisbon"),
        ("The user ", "The user "),
        ("", ""),
    ],
)
def test_shared_subject_is_stripped(text, stripped):
    assert tokenizer.strip_subject(text) == stripped


def test_passage_stores_vector_and_terms(owner):
    index_fact(owner, "The user lives in Lisbon", vector(1, 1))
    (row,) = list_passages(owner)
    assert (row.embedder, row.dimensions, row.embedding_error) == ("test", 4, "")
    assert row.vector == pytest.approx(vector(1, 1).vector)
    assert not row.is_question


def test_embedding_error_is_stored_truncated(owner):
    fact = Fact.objects.get(id=index_fact(owner, "tea"))
    Passage.objects.index_facts(owner, [(fact.id, "tea", None, "x" * 5_000)])
    (row,) = list_passages(owner)
    assert (row.embedder, row.vector) == ("", None)
    assert row.embedding_error == "x" * passages.MAX_ERROR_LENGTH


def test_removals_raise_the_version_and_additions_do_not(owner):
    fact = index_fact(owner, "tea")
    assert not Owner.objects.filter(user_id=owner).exists()
    Passage.objects.index_facts(owner, [(fact, "coffee", None, "")])
    assert version(owner) == 1
    Passage.objects.unindex(owner, fact__in=[fact])
    assert version(owner) == 2
    Passage.objects.unindex(owner, fact__in=[fact])
    Passage.objects.unindex(owner, fact__in=[])
    assert version(owner) == 2
    assert list_passages(owner) == []


def test_passages_are_written_in_batches(owner, monkeypatch):
    monkeypatch.setattr(passages, "BATCH_SIZE", 3)
    now = timezone.now()
    rows = [Fact(user_id=owner, content=f"tea {n}", source="user") for n in range(8)]
    for row in rows:
        row.said_at = row.created_at = row.updated_at = now
    Fact.objects.bulk_create(rows)
    texts = [(row.id, row.content, None, "") for row in rows]
    Passage.objects.index_facts(owner, texts)
    Passage.objects.index_facts(owner, texts)
    assert len(list_passages(owner)) == 8
    Passage.objects.unindex(owner, fact__in=[row.id for row in rows])
    assert list_passages(owner) == []


@pytest.mark.parametrize(
    "text",
    ["", "\U0001f9c1", "'); DROP TABLE x; --", "w\u00f6rd " * 9_000, "a:1 b'\\ c"],
)
def test_any_text_can_be_indexed_and_searched(owner, text):
    index_fact(owner, text)
    index_messages(owner, text, "hm")
    assert len(find_messages(owner, text)) == (2 if tokenizer.tokenize(text) else 0)


def test_very_long_conversation_fits_the_tsvector_limit(owner):
    wide = "\U0001d538"  # four bytes, and a word
    texts = [" ".join(f"{n:x}{wide * 60}" for n in range(3_000)) for _ in range(3)]
    index_messages(owner, *texts)
    assert len(find_messages(owner, f"5{wide * 60}", limit=9)) == 3


def test_reindexed_messages_are_stored_once(owner):
    thread = index_messages(owner, "tea", "milk")
    rows = [(m.message_id, m.position, "tea", None, "") for m in list_passages(owner)]
    Passage.objects.index_messages(owner, thread, rows)
    assert len(list_passages(owner)) == 2
    assert find_messages(owner, "milk") == []


# Embedding again.


def test_passages_without_current_vector_are_pending(owner):
    passage = index_fact(owner, "The user likes tea", vector(1))
    index_fact(owner, "The user likes milk", vector(1, embedder="old"))
    index_messages(owner, "hello")
    waiting = [
        p for p in Passage.objects.pending("test").with_text() if p.user_id == owner
    ]
    assert [p.text for p in waiting] == ["likes milk", "hello"]
    first, second = waiting
    assert passage not in [p.id for p in waiting]
    after = Passage.objects.pending("test").filter(id__gt=first.id)
    assert after[0].id <= second.id


def test_stored_vectors_are_searchable(owner):
    fact = index_fact(owner, "The user likes tea", vector(1, embedder="old"))
    assert near(owner) == []
    waiting = [
        p for p in Passage.objects.pending("test").with_text() if p.user_id == owner
    ]
    Passage.objects.set_vectors([(waiting[0], vector(1), "")])
    (row,) = list_passages(owner)
    assert (row.fact_id, row.embedder) == (fact, "test")
    assert near(owner) == [row.id]
    assert version(owner) == 1


def test_vector_for_a_changed_passage_is_dropped(owner):
    fact = index_fact(owner, "The user likes tea")
    waiting = [
        p for p in Passage.objects.pending("test").with_text() if p.user_id == owner
    ]
    Passage.objects.index_facts(owner, [(fact, "The user likes milk", None, "")])
    Passage.objects.set_vectors([(waiting[0], vector(1), "")])
    (row,) = list_passages(owner)
    assert row.embedder == ""


def test_vector_for_an_erased_user_is_dropped(owner):
    index_fact(owner, "The user likes tea")
    waiting = [
        p for p in Passage.objects.pending("test").with_text() if p.user_id == owner
    ]
    erasure.erase_user(owner)
    Passage.objects.set_vectors([(waiting[0], vector(1), "")])
    assert not Owner.objects.filter(user_id=owner).exists()


def test_pending_passages_are_counted(owner):
    before = Passage.objects.pending("counted").count()
    index_fact(owner, "tea", vector(1, embedder="counted"))
    fact = index_fact(owner, "milk")
    Passage.objects.index_facts(owner, [(fact, "milk", None, "down")])
    assert Passage.objects.pending("counted").count() == before + 1


def test_vector_of_another_user_cannot_be_set(owner):
    index_fact(owner, "tea", vector(1, embedder="old"))
    (row,) = list_passages(owner)
    forged = Passage(id=row.id, user_id=uuid.uuid4())
    Passage.objects.set_vectors([(forged, vector(1), "")])
    assert list_passages(owner)[0].embedder == "old"


def near(user: UserId) -> list[int]:
    """Return the facts whose passages a vector finds."""
    question = ParsedQuery([], vector(1), 0.0)
    found = search.open_index(user).facts(question, FactFilter())
    if isinstance(found, SparseRetrieverScores):
        return sorted(found.similarity)
    return found.ids[found.similarity > 0].tolist()


# The cache of a process.


def test_term_hashes_are_stable_across_processes():
    assert term_encoding.hash_terms(["tea", "\U0001f9c1"]).tolist() == [
        2391201714,
        714387438,
    ]


def test_lexemes_of_users_are_disjoint(owner):
    stranger = UserId(uuid.uuid4())
    own, foreign = (term_encoding.user_lexemes(u, ["tea"]) for u in (owner, stranger))
    assert own != foreign
    assert own == term_encoding.user_lexemes(owner, ["tea"])


@sqlite
def test_removed_passage_leaves_the_cache(owner):
    fact = index_fact(owner, "tea", vector(1))
    index_fact(owner, "milk", vector(0, 1))
    assert corpus_cache.get_corpora(owner).facts.live_count == 2
    Passage.objects.unindex(owner, fact__in=[fact])
    assert corpus_cache.get_corpora(owner).facts.live_count == 1
    assert near(owner) == []


@sqlite
def test_corpus_cache_evicts_least_recently_used_user(monkeypatch):
    users = [UserId(uuid.uuid4()) for _ in range(3)]
    for user in users:
        index_fact(user, "tea", Embedded("test", np.ones(100, np.float32)))
    corpus_cache.clear_cache()
    sizes = [corpus_cache.get_corpora(user).nbytes for user in users]
    monkeypatch.setattr(corpus_cache, "MAX_BYTES", sum(sizes))
    corpus_cache.clear_cache()
    for user in (*users, users[0]):
        corpus_cache.get_corpora(user)
    monkeypatch.setattr(corpus_cache, "MAX_BYTES", sum(sizes) - 1)
    fact = index_fact(users[2], "milk")
    corpus_cache.get_corpora(users[2])
    assert list(corpus_cache._cache) == [users[0], users[2]]
    assert corpus_cache._cached_bytes == sum(
        s.nbytes for s in corpus_cache._cache.values()
    )
    Passage.objects.unindex(users[2], fact__in=[fact])
