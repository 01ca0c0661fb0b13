"""The memory API: change and delete memories, and keep users apart."""

import pytest

from access.users import identity
from memory.facts import fact_store
from memory.facts.types import FactDraft
from memory.models import Fact
from tasks.models import Task
from tests.gateway.calls import error
from tests.gateway.memory.test_memories import FUTURE, PAST, UNKNOWN
from tests.gateway.memory_client import (
    address,
    ok,
    store_message,
)

pytestmark = pytest.mark.database


# Changing and forgetting.


def test_memory_can_be_changed(memory_client):
    saved = memory_client.save("Lives in Lisbon", key="home", expires_at=FUTURE)
    changed = memory_client.change(
        saved, content="Lives in Berlin", importance=9, pinned=True, category="fact"
    )
    assert changed["content"] == "Lives in Berlin"
    assert (changed["importance"], changed["pinned"]) == (9, True)
    assert (changed["key"], changed["expires_at"]) == ("home", FUTURE)
    assert memory_client.get(address(saved)) == changed
    assert memory_client.finds("Berlin") == ["Lives in Berlin"]
    assert memory_client.finds("Lisbon") == []


def test_null_clears_optional_fields(memory_client):
    given = {"key": "k", "valid_from": PAST, "valid_to": FUTURE, "expires_at": FUTURE}
    saved = memory_client.save("Lives in Lisbon", **given)
    changed = memory_client.change(saved, **dict.fromkeys(given))
    assert {name: changed[name] for name in given} == dict.fromkeys(given)


@pytest.mark.parametrize("name", ["content", "category", "importance", "pinned"])
def test_null_is_refused_for_required_fields(memory_client, name):
    saved = memory_client.save("Lives in Lisbon")
    refusal = memory_client.refused("PATCH", address(saved), body={name: None})
    assert refusal["param"] == name


def test_empty_change_adds_no_history(memory_client):
    saved = memory_client.save("Lives in Lisbon")
    assert memory_client.change(saved)["updated_at"] == saved["updated_at"]
    assert len(memory_client.get(f"{address(saved)}/history")["data"]) == 1


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"content": " "}, "content"),
        ({"status": "deleted"}, "status"),
        ({"superseded_by": None}, "superseded_by"),
        ({"is_pinned": True}, "is_pinned"),
        ({"expires_at": PAST}, "expires_at"),
        ({"ttl_seconds": 0}, "ttl_seconds"),
        ({"valid_to": PAST, "valid_from": FUTURE}, "valid_to"),
        ({"reason": "x" * 501}, "reason"),
    ],
)
def test_invalid_change_is_named(memory_client, changes, param):
    saved = memory_client.save("Lives in Lisbon")
    assert (
        memory_client.refused("PATCH", address(saved), body=changes)["param"] == param
    )
    assert memory_client.get(address(saved))["updated_at"] == saved["updated_at"]


def test_key_is_unique(memory_client):
    home = memory_client.save("Lives in Lisbon", key="home")
    other = memory_client.save("Plays the cello")
    refusal = memory_client.refused("PATCH", address(other), body={"key": "home"})
    assert refusal["code"] == "key_taken"
    assert home["id"] in refusal["message"]


def test_memory_can_be_deleted_and_restored(memory_client):
    saved = memory_client.save("Plays the cello")
    result = {"id": saved["id"], "object": "memory.deleted", "deleted": True}
    assert memory_client.forget(saved) == result
    assert memory_client.forget(saved) == result
    assert memory_client.contents() == memory_client.finds("cello") == []
    assert memory_client.get(address(saved))["status"] == "deleted"
    assert memory_client.change(saved, status="active")["status"] == "active"
    assert (
        memory_client.contents() == memory_client.finds("cello") == ["Plays the cello"]
    )


def test_history_reports_author_time_and_reason(memory_client):
    saved = memory_client.save("Lives in Lisbon")
    memory_client.change(saved, content="Lives in Berlin", reason="moved", pinned=True)
    memory_client.forget(saved)
    result = memory_client.get(f"{address(saved)}/history")
    assert (result["object"], result["has_more"]) == ("list", False)
    created, changed, deleted = result["data"]
    assert created["before"] is None
    assert created["after"]["content"] == "Lives in Lisbon"
    assert (changed["by"], changed["reason"]) == ("user", "moved")
    assert changed["before"]["content"] == "Lives in Lisbon"
    assert (
        changed["after"].items()
        >= {"content": "Lives in Berlin", "pinned": True}.items()
    )
    assert deleted["action"] == "deleted"
    assert deleted["at"].endswith("Z")


def test_history_uses_public_memory_ids(memory_client):
    owner = identity.derive_user_id(memory_client.user)
    old = memory_client.save("Lives in Lisbon")
    fact = fact_store.page_facts(owner)[0][0]
    draft = FactDraft("Lives in Berlin", source="user", supersedes=fact.id)
    (new,) = fact_store.save_drafts(owner, [draft], [None], by="user")
    step = memory_client.get(f"{address(old)}/history")["data"][-1]
    assert step["after"]["superseded_by"] == f"mem_{new.fact_id.hex}"
    assert memory_client.get(address(old))["superseded_by"] == f"mem_{new.fact_id.hex}"


# Isolation of users.


def test_memories_are_invisible_to_other_users(memory_client, other_client):
    memory_client.save("Plays the cello", key="music")
    store_message(memory_client, "My cello broke")
    assert other_client.get(status="all")["data"] == []
    assert other_client.search("cello", **{"in": "all"})["data"] == []
    link = other_client.get("/v1/memories/search", q="cello", **{"in": "all"})
    assert link["data"] == []


def test_memory_of_another_user_is_answered_as_unknown(memory_client, other_client):
    saved = memory_client.save("Plays the cello")

    def answers(memory: dict) -> list[tuple[int, bytes]]:
        sent = [
            other_client.send("GET", address(memory)),
            other_client.send("PATCH", address(memory), {"content": "Plays the viola"}),
            other_client.send("PATCH", address(memory), {}),
            other_client.send("DELETE", address(memory)),
            other_client.send("GET", f"{address(memory)}/history"),
            other_client.send("GET", "/v1/memories", after=memory["id"]),
        ]
        return [(response.status_code, response.content) for response in sent]

    result = answers(saved)
    assert result == answers(UNKNOWN)
    assert [status for status, _ in result] == [404] * 5 + [400]
    assert memory_client.contents() == ["Plays the cello"]
    assert len(memory_client.get(f"{address(saved)}/history")["data"]) == 1


def test_two_users_may_save_equal_memories(memory_client, other_client):
    own = memory_client.save("Plays the cello", key="music")
    foreign = other_client.save("Plays the viola", key="music")
    assert own["id"] != foreign["id"]
    assert (own["outcome"], foreign["outcome"]) == ("created", "created")
    assert memory_client.contents() == ["Plays the cello"]


@pytest.mark.parametrize(
    "name", ["nope", "mem_", "mem_" + "g" * 32, "mem_" + "0" * 33, "%01", "mem_%F0"]
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_invalid_memory_id_is_404(memory_client, method, name):
    assert memory_client.refused(method, f"/v1/memories/{name}", 404)["message"]


def test_wrong_method_is_405_with_allow(http):
    response = http.put("/v1/memories")
    error(response, 405)
    assert set(response.headers["allow"].split(", ")) == {"GET", "POST"}


def test_saving_queues_no_extraction(memory_client):
    memory_client.save("Plays the cello")
    owner = identity.derive_user_id(memory_client.user)
    assert not Task.objects.extractions().filter(user_id=owner).exists()
    assert Fact.objects.filter(user_id=owner).count() == 1


def test_openapi_describes_every_route(http):
    described = ok(http.get("/v1/openapi.json"))
    routes = {
        (method, path)
        for path, methods in described["paths"].items()
        for method in methods
        if "memories" in path or "users" in path
    }
    memory = "/v1/memories/{memory_id}"
    assert routes == {
        ("get", "/v1/memories"),
        ("post", "/v1/memories"),
        ("get", "/v1/memories/search"),
        ("post", "/v1/memories/search"),
        ("get", "/v1/memories/review"),
        ("post", "/v1/memories/review"),
        ("get", memory),
        ("patch", memory),
        ("delete", memory),
        ("get", f"{memory}/history"),
        ("get", "/v1/users/me/export"),
        ("delete", "/v1/users/me"),
        ("get", "/v1/users/me/settings"),
        ("patch", "/v1/users/me/settings"),
    }
    for method, path in routes:
        parameters = described["paths"][path][method]["parameters"]
        names = {parameter["name"] for parameter in parameters}
        assert names >= {"safety_identifier", "X-Coulisse-User"}
    changes = described["components"]["schemas"]["MemoryChanges"]["properties"]
    assert not any("default" in described for described in changes.values())
