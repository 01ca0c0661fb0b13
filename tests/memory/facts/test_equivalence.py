"""Comparison of texts: same, contradiction or different, in several languages."""

# ruff: noqa: RUF001

import itertools
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.facts.text_comparison.equivalence import compare_texts, is_identical
from tests.memory.facts import sentence_pairs as pairs

FACTS = Path(__file__).parents[3] / "bench/data/facts.jsonl"


@pytest.mark.parametrize(("old", "new"), pairs.PARAPHRASES)
def test_paraphrases_are_the_same(old, new):
    assert compare_texts(old, new) == "same"
    assert compare_texts(new, old) == "same"


@pytest.mark.parametrize(("old", "new"), pairs.CONTRADICTIONS)
def test_contradicting_updates_are_changed(old, new):
    assert compare_texts(old, new) == "changed"


@pytest.mark.parametrize(("old", "new"), [*pairs.DIFFERENT, *pairs.HELD_OUT_DIFFERENT])
def test_compatible_facts_are_different(old, new):
    assert compare_texts(old, new) == "different"
    assert compare_texts(new, old) == "different"


def test_held_out_pairs_are_mostly_recognised():
    """No pair is merged wrongly; a miss leaves a duplicate."""
    results = [compare_texts(*pair) for pair in pairs.HELD_OUT_PARAPHRASES]
    changed = [compare_texts(*pair) for pair in pairs.HELD_OUT_CONTRADICTIONS]
    assert set(results) <= {"same", "different"}
    assert set(changed) <= {"changed", "different"}
    assert results.count("same") / len(results) > 0.9
    assert changed.count("changed") / len(changed) > 0.9


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Likes tea.", "likes TEA"),
        ("Likes “tea”!", "Likes tea"),
        ("Ｌｉｋｅｓ tea", "Likes tea"),
        ("The user's dog, Rex", "The user’s dog Rex"),
    ],
)
def test_case_width_and_punctuation_are_ignored(old, new):
    assert is_identical(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Likes C", "Likes C++"),
        ("Likes C++", "Likes C#"),
        ("Weighs 3.5 kg", "Weighs 35 kg"),
        ("It is 5 degrees", "It is -5 degrees"),
        ("Owes $5", "Owes 5€"),
        ("🎉", "🎂"),
        ("-", "+"),
    ],
)
def test_meaningful_marks_are_not_ignored(old, new):
    assert not is_identical(old, new)
    assert compare_texts(old, new) != "same"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Likes coffee but not tea", "Likes tea but not coffee"),
        ("Doesn't like coffee, likes tea", "Likes coffee, doesn't like tea"),
        ("Doesn't hate coffee", "Likes coffee"),
        ("Doesn't work at Google", "Doesn't work at Meta"),
        ("Works as a nurse", "Worked as a waiter"),
        ("Is called Ana", "Has a son called Ana"),
        ("Is married to Al", "Is married"),
        ("Lives in Berlin with Ana and has a cat", "Lives in Rome"),
        ("Left knee hurts", "Right knee hurts"),
    ],
)
def test_doubtful_pairs_are_different(old, new):
    assert compare_texts(old, new) == "different"


def test_facts_of_one_person_are_not_merged():
    """These facts are all true of one person, so none replaces another."""
    facts = [json.loads(line) for line in FACTS.read_text().splitlines()]
    ended = {fact.get("supersedes") for fact in facts}
    current = [
        fact["content"]
        for fact in facts
        if fact["user"] == "ines" and fact["id"] not in ended
    ]
    merged = [
        pair
        for pair in itertools.combinations(current, 2)
        if compare_texts(*pair) != "different"
    ]
    assert len(current) > 50
    assert merged == []


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_can_be_compared(old, new):
    assert compare_texts(old, old) == "same"
    if compare_texts(old, new) == "same":
        assert compare_texts(new, old) == "same"


@pytest.mark.parametrize("text", ["hat ge" * 330, "住在上海" * 500, "a b " * 500])
def test_long_texts_are_compared_quickly(text):
    started = time.thread_time()
    compare_texts(text, text[:-3] + " x")
    assert time.thread_time() - started < 0.5
