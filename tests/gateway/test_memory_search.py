"""What is known of a user and what they said is found, by words and by meaning."""

import uuid

import pytest

from memory.facts import public_ids
from memory.models import Passage
from tests.gateway.hands import CONFIG_WITH_MEMORY, address, fill, talk_of

pytestmark = pytest.mark.database


def test_search_matches_words(hands):
    fill(hands)
    found = hands.search("Which instrument does she play? The cello?")
    assert found["object"] == "list"
    assert found["data"][0]["content"] == "Plays the cello"
    assert found["data"][0]["object"] == "memory"
    assert found["data"][0]["score"] > 0
    assert "explain" not in found["data"][0]


def test_search_works_by_get(hands):
    fill(hands)
    found = hands.get("/v1/memories/search", q="cello", limit=1, explain="true")
    assert [each["content"] for each in found["data"]] == ["Plays the cello"]
    assert found["data"][0]["explain"]["ranks"]["terms"] == 1


def test_search_without_memory_uses_words_only(hands):
    fill(hands)
    found = hands.search("cello", explain=True)
    assert found["embedding"] == "off"
    assert found["explain"]["embedder"] is None
    assert found["data"][0]["explain"]["similarity"] is None


def test_search_with_memory_uses_vectors(hands, configure):
    configure(CONFIG_WITH_MEMORY)
    fill(hands)
    found = hands.search("cello", explain=True)
    assert found["embedding"] == found["explain"]["embedder"] == "hash:1024"
    best = found["data"][0]
    assert best["content"] == "Plays the cello"
    assert 0.3 < best["explain"]["similarity"] <= 1
    assert best["explain"]["ranks"]["similarity"] == 1
    assert found["explain"]["weights"]["facts"]["similarity"] > 0


def similarity(hands, query: str) -> float | None:
    (found,) = hands.search(query, explain=True)["data"]
    return found["explain"]["similarity"]


def test_changed_memory_is_embedded_again(hands, configure):
    configure(CONFIG_WITH_MEMORY)
    saved = hands.save("Plays the cello")
    hands.change(saved, content="Breeds dachshunds")
    assert similarity(hands, "dachshunds") > 0.3
    hands.forget(saved)
    hands.change(saved, status="active")
    assert similarity(hands, "dachshunds") > 0.3
    hands.change(saved, importance=9)
    assert similarity(hands, "dachshunds") > 0.3


def test_search_fusion_can_be_chosen(hands, configure):
    configure(CONFIG_WITH_MEMORY)
    fill(hands)
    for fusion in ("rrf", "weighted"):
        found = hands.search("cello", fusion=fusion, explain=True)
        assert found["explain"]["fusion"] == fusion
        assert found["data"][0]["content"] == "Plays the cello"


SERVICE = CONFIG_WITH_MEMORY.replace(
    "{provider: hash}", "{provider: openai, model: text-embedding-3-small}"
)


def test_search_falls_back_to_words_when_embedder_fails(hands, fake, configure):
    configure(SERVICE)
    fake.embed(status=400)
    hands.save("Plays the cello")
    fake.embed(status=400)
    found = hands.search("cello")
    assert found["embedding"] == "failed"
    assert [each["content"] for each in found["data"]] == ["Plays the cello"]


def test_failed_embedding_is_retried(hands, fake, configure):
    configure(SERVICE)
    saved = hands.save("Plays the cello")
    fake.embed(status=400)
    hands.change(saved, content="Breeds dachshunds")
    assert public_ids.parse_fact_id(saved["id"]) in waiting()
    fake.embed(status=400)
    hands.forget(saved)
    hands.change(saved, status="active")
    assert public_ids.parse_fact_id(saved["id"]) in waiting()


def waiting() -> list[uuid.UUID]:
    """Return the facts that a sweep embeds once more."""
    failed = Passage.objects.filter(embedder="").exclude(embedding_error="")
    return list(failed.values_list("fact_id", flat=True))


def test_refused_change_of_another_users_memory_is_not_embedded(
    hands, neighbour, fake, configure
):
    saved = hands.save("Plays the cello")
    configure(SERVICE)
    body = {"content": "Plays the viola"}
    neighbour.refused("PATCH", address(saved), 404, body=body)
    assert fake.requests == []


def test_messages_can_be_searched(hands):
    talk_of(hands, "I play the cello every evening", thread="music")
    found = hands.search("cello", **{"in": "messages"})
    assert (
        found["data"][0].items()
        >= {
            "object": "message",
            "thread_id": "music",
            "position": 0,
            "role": "user",
            "content": "I play the cello every evening",
        }.items()
    )


def test_facts_and_messages_alternate_in_results(hands):
    hands.save("Plays the cello")
    hands.save("Owns a cello from Cremona")
    talk_of(hands, "My cello broke")
    found = hands.search("cello", **{"in": "all"})
    kinds = [each["object"] for each in found["data"]]
    assert kinds == ["memory", "message", "memory"]
    found = hands.search("cello", limit=2, **{"in": "all"})
    assert (len(found["data"]), found["has_more"]) == (2, True)


def test_search_can_be_filtered(hands):
    hands.save("Plays the cello", category="preference")
    hands.save("Sold a cello", category="event")
    assert hands.finds("cello", category="event") == ["Sold a cello"]


def test_held_and_deleted_memories_are_not_found(hands):
    hands.change(hands.save("Plays the cello"), status="pending_review")
    hands.forget(hands.save("Sold a cello"))
    assert hands.finds("cello") == []


@pytest.mark.parametrize("query", ["the of and", "🎉", "?!", "' OR 1=1 --", "a:* & !b"])
def test_any_query_text_is_accepted(hands, query):
    hands.save("Plays the cello")
    found = hands.search(query, **{"in": "all"})
    assert found["object"] == "list"
    # By meaning it may come back; nothing else can.
    assert {each["content"] for each in found["data"]} <= {"Plays the cello"}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": " "}, "query"),
        ({"query": "nul \0"}, "query"),
        ({"query": "x" * 4001}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "limit": 101}, "limit"),
        ({"query": "x", "in": "files"}, "in"),
        ({"query": "x", "in_": "facts"}, "in_"),
        ({"query": "x", "fusion": "none"}, "fusion"),
        ({"query": "x", "explain": "yes"}, "explain"),
        ({"query": "x", "category": "event", "in": "messages"}, "category"),
        ({"query": "x", "top_k": 3}, "top_k"),
    ],
)
def test_invalid_search_parameter_is_named(hands, body, param):
    said = hands.refused("POST", "/v1/memories/search", body=body)
    assert said["param"] == param


@pytest.mark.parametrize(
    ("query", "param"),
    [({}, "q"), ({"q": " "}, "q"), ({"q": "x", "explain": "perhaps"}, "explain")],
)
def test_invalid_search_query_parameter_is_named(hands, query, param):
    said = hands.refused("GET", "/v1/memories/search", **query)
    assert said["param"] == param
