"""Search in memories and messages, by words and by meaning."""

import uuid

import pytest

from memory.facts import public_ids
from memory.models import Passage
from tests.gateway.memory_client import (
    CONFIG_WITH_MEMORY,
    address,
    save_memories,
    store_message,
)

pytestmark = pytest.mark.database


def test_search_matches_words(memory_client):
    save_memories(memory_client)
    found = memory_client.search("Which instrument does she play? The cello?")
    assert found["object"] == "list"
    assert found["data"][0]["content"] == "Plays the cello"
    assert found["data"][0]["object"] == "memory"
    assert found["data"][0]["score"] > 0
    assert "explain" not in found["data"][0]


def test_search_works_by_get(memory_client):
    save_memories(memory_client)
    found = memory_client.get("/v1/memories/search", q="cello", limit=1, explain="true")
    assert [each["content"] for each in found["data"]] == ["Plays the cello"]
    assert found["data"][0]["explain"]["ranks"]["terms"] == 1


def test_search_without_memory_uses_words_only(memory_client):
    save_memories(memory_client)
    found = memory_client.search("cello", explain=True)
    assert found["embedding"] == "off"
    assert found["explain"]["embedder"] is None
    assert found["data"][0]["explain"]["similarity"] is None


def test_search_with_memory_uses_vectors(memory_client, configure):
    configure(CONFIG_WITH_MEMORY)
    save_memories(memory_client)
    found = memory_client.search("cello", explain=True)
    assert found["embedding"] == found["explain"]["embedder"] == "hash:1024"
    best = found["data"][0]
    assert best["content"] == "Plays the cello"
    assert 0.3 < best["explain"]["similarity"] <= 1
    assert best["explain"]["ranks"]["similarity"] == 1
    assert found["explain"]["weights"]["facts"]["similarity"] > 0


def similarity(memory_client, query: str) -> float | None:
    (found,) = memory_client.search(query, explain=True)["data"]
    return found["explain"]["similarity"]


def test_changed_memory_is_embedded_again(memory_client, configure):
    configure(CONFIG_WITH_MEMORY)
    saved = memory_client.save("Plays the cello")
    memory_client.change(saved, content="Breeds dachshunds")
    assert similarity(memory_client, "dachshunds") > 0.3
    memory_client.forget(saved)
    memory_client.change(saved, status="active")
    assert similarity(memory_client, "dachshunds") > 0.3
    memory_client.change(saved, importance=9)
    assert similarity(memory_client, "dachshunds") > 0.3


def test_search_fusion_can_be_chosen(memory_client, configure):
    configure(CONFIG_WITH_MEMORY)
    save_memories(memory_client)
    for fusion in ("rrf", "weighted"):
        found = memory_client.search("cello", fusion=fusion, explain=True)
        assert found["explain"]["fusion"] == fusion
        assert found["data"][0]["content"] == "Plays the cello"


SERVICE = CONFIG_WITH_MEMORY.replace(
    "{provider: hash}", "{provider: openai, model: text-embedding-3-small}"
)


def test_search_falls_back_to_words_when_embedder_fails(memory_client, fake, configure):
    configure(SERVICE)
    fake.embed(status=400)
    memory_client.save("Plays the cello")
    fake.embed(status=400)
    found = memory_client.search("cello")
    assert found["embedding"] == "failed"
    assert [each["content"] for each in found["data"]] == ["Plays the cello"]


def test_failed_embedding_is_retried(memory_client, fake, configure):
    configure(SERVICE)
    saved = memory_client.save("Plays the cello")
    fake.embed(status=400)
    memory_client.change(saved, content="Breeds dachshunds")
    assert public_ids.parse_fact_id(saved["id"]) in waiting()
    fake.embed(status=400)
    memory_client.forget(saved)
    memory_client.change(saved, status="active")
    assert public_ids.parse_fact_id(saved["id"]) in waiting()


def waiting() -> list[uuid.UUID]:
    """Return the facts that a sweep embeds again."""
    failed = Passage.objects.filter(embedder="").exclude(embedding_error="")
    return list(failed.values_list("fact_id", flat=True))


def test_refused_change_of_another_users_memory_is_not_embedded(
    memory_client, other_client, fake, configure
):
    saved = memory_client.save("Plays the cello")
    configure(SERVICE)
    body = {"content": "Plays the viola"}
    other_client.refused("PATCH", address(saved), 404, body=body)
    assert fake.requests == []


def test_messages_can_be_searched(memory_client):
    store_message(memory_client, "I play the cello every evening", thread="music")
    found = memory_client.search("cello", **{"in": "messages"})
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


def test_facts_and_messages_alternate_in_results(memory_client):
    memory_client.save("Plays the cello")
    memory_client.save("Owns a cello from Cremona")
    store_message(memory_client, "My cello broke")
    found = memory_client.search("cello", **{"in": "all"})
    kinds = [each["object"] for each in found["data"]]
    assert kinds == ["memory", "message", "memory"]
    found = memory_client.search("cello", limit=2, **{"in": "all"})
    assert (len(found["data"]), found["has_more"]) == (2, True)


def test_search_can_be_filtered(memory_client):
    memory_client.save("Plays the cello", category="preference")
    memory_client.save("Sold a cello", category="event")
    assert memory_client.finds("cello", category="event") == ["Sold a cello"]


def test_held_and_deleted_memories_are_not_found(memory_client):
    memory_client.change(memory_client.save("Plays the cello"), status="pending_review")
    memory_client.forget(memory_client.save("Sold a cello"))
    assert memory_client.finds("cello") == []


@pytest.mark.parametrize("query", ["the of and", "🎉", "?!", "' OR 1=1 --", "a:* & !b"])
def test_any_query_text_is_accepted(memory_client, query):
    memory_client.save("Plays the cello")
    found = memory_client.search(query, **{"in": "all"})
    assert found["object"] == "list"
    # A search by meaning may return it, other searches may not.
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
def test_invalid_search_parameter_is_named(memory_client, body, param):
    refusal = memory_client.refused("POST", "/v1/memories/search", body=body)
    assert refusal["param"] == param


@pytest.mark.parametrize(
    ("query", "param"),
    [({}, "q"), ({"q": " "}, "q"), ({"q": "x", "explain": "perhaps"}, "explain")],
)
def test_invalid_search_query_parameter_is_named(memory_client, query, param):
    refusal = memory_client.refused("GET", "/v1/memories/search", **query)
    assert refusal["param"] == param
