"""Searches find the same on the target, whose words are encoded differently."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.ids import UserId
from database.transfer import rows
from memory.models import Passage, StoredMessage
from tests.database.transfer.conftest import move
from tests.memory.recall.index_harness import (
    find_facts,
    find_messages,
    index_fact,
    index_messages,
    vector,
)

pytestmark = pytest.mark.database

TEXTS = ("my dog Rex", "A beagle?", "no, a collie collie", "Good", "the cello")


@pytest.fixture
def owner() -> UserId:
    return UserId(uuid.uuid4())


def read_terms() -> list[Any]:
    columns = "fact_id", "message_id", "terms", "window_terms"
    return list(Passage.objects.order_by("id").values_list(*columns))


def test_words_and_vectors_are_found_after_the_move(
    source: str,
    new_url: Callable[[], str],
    default: Callable[[str], None],
    owner: UserId,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A window reaches over the ends of batches.
    monkeypatch.setattr(rows, "FIRST_BATCH", 2)
    monkeypatch.setattr(rows, "MAX_BATCH", 2)
    index_messages(owner, *TEXTS)
    index_fact(owner, "The user plays the cello", vector(1, 2))
    index_fact(owner, "The user drinks tea", vector(2, -1))
    messages, facts = find_messages(owner, "beagle"), find_facts(owner, "tea")
    assert messages[0] == "A beagle?"
    url = new_url()
    move(url)
    default(url)

    # Databases rank the neighbours, which were found by their windows, differently.
    assert find_messages(owner, "beagle")[0] == "A beagle?"
    assert sorted(find_messages(owner, "beagle")) == sorted(messages)
    assert find_facts(owner, "tea") == facts == ["The user drinks tea"]
    assert find_facts(owner, "?", vector(1, 2), limit=1) == ["The user plays the cello"]


def test_words_are_stored_as_the_target_does(
    source: str,
    new_url: Callable[[], str],
    default: Callable[[str], None],
    owner: UserId,
    tmp_path: Path,
) -> None:
    thread = index_messages(owner, *TEXTS)
    index_fact(owner, "The user plays the cello")
    unindexed = StoredMessage.objects.get(thread=thread, text=TEXTS[1])
    Passage.objects.unindex_messages(owner, thread, {unindexed.pk: unindexed.position})
    original = read_terms()
    url, back = new_url(), f"sqlite:///{tmp_path / 'back.db'}"
    move(url)
    default(url)
    moved = read_terms()
    texts = [
        (m.id, m.position, m.text, None, "")
        for m in StoredMessage.objects.filter(thread=thread).exclude(pk=unindexed.pk)
    ]

    move(back)
    Passage.objects.index_messages(owner, thread, texts)

    assert sorted(map(without_places, moved)) == sorted(
        map(without_places, read_terms())
    )
    default(back)
    assert read_terms() == original


def without_places(row: tuple[Any, ...]) -> str:
    """Return a row's words with their numbers of places, which alone count."""

    def count(terms: Any) -> Any:
        if not isinstance(terms, str):
            return terms
        words = (word.rpartition(":") for word in terms.split())
        return sorted((word, places.count(",") + 1) for word, _, places in words)

    return repr((str(row[0]), row[1], count(row[2]), count(row[3])))
