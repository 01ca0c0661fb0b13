"""Search: by words and by meaning, one user at a time, on both databases."""

import contextlib
from datetime import timedelta

import numpy as np
import pytest
from django.db import transaction
from django.forms.models import model_to_dict
from django.utils import timezone

from memory.models import Fact, Owner, Passage
from memory.models import StoredMessage as MessageRow
from memory.recall import search
from memory.recall.index import numpy_index, retrieval_types
from memory.recall.types import Embedded, Query
from tests.memory.recall.index_harness import (
    find_facts,
    find_messages,
    index_fact,
    index_messages,
    index_size,  # noqa: F401  autouse
    vector,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


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


# Current facts.


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


# New and deleted passages.


def test_new_fact_is_found_at_once(owner):
    for number in range(5):
        index_fact(owner, f"cello {number}", vector(1, number))
        assert len(find_facts(owner, "cello", vector(1))) == number + 1


def test_earlier_text_of_a_fact_is_not_found(owner):
    fact = index_fact(owner, "The user lives in Lisbon")
    assert find_facts(owner, "lisbon")
    Passage.objects.index_facts(owner, [(fact, "The user lives in Porto", None, "")])
    assert find_facts(owner, "lisbon") == []
    assert len(find_facts(owner, "porto")) == 1
    Passage.objects.unindex(owner, fact__in=[fact])
    assert find_facts(owner, "porto") == []


def test_rows_deleted_elsewhere_hide_no_results(owner, monkeypatch):
    for number in range(8):
        index_fact(owner, f"cello {number}")
    assert len(find_facts(owner, "cello", limit=4)) == 4
    monkeypatch.setattr(retrieval_types, "RETRIEVAL_DEPTH", 4)
    monkeypatch.setattr(numpy_index, "RETRIEVAL_DEPTH", 4)
    # Without an update of the owner's row, like a cascade.
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
        "tea one",
        "hm",
        "tea elsewhere",
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
    assert model_to_dict(found.fact) == model_to_dict(Fact.objects.get(id=fact))


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
