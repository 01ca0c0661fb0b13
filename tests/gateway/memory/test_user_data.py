"""Export and erasure of a user's data."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx2
import pytest
from django.db import OperationalError

from access.users import identity
from database import database_executor
from database.errors import DatabaseDown
from memory.api import user_data
from memory.models import PendingErasure
from memory.user_data import erasure, export
from telemetry.live_turns.active_turns import ACTIVE_TURNS
from tests.conftest import CONFIG
from tests.gateway.calls import body, post, until
from tests.gateway.memory_client import ok
from tests.memory.user_data.sample_user import (
    count_rows,
    store_conversation,
    store_user_data,
)

pytestmark = pytest.mark.database

EXPORT, ME = "/v1/users/me/export", "/v1/users/me"


# Export.


def test_export_contains_everything(memory_client):
    owner = identity.derive_user_id(memory_client.user)
    store_user_data(owner, "plums")
    response = memory_client.send("GET", EXPORT)
    result = ok(response)
    assert result["object"] == "user.export"
    assert result["user_id"] == str(owner)
    assert len(result["threads"]) == 2
    assert {memory["status"] for memory in result["memories"]} == {
        "active",
        "superseded",
    }
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    name = f'attachment; filename="{owner}.json"'
    assert response.headers["content-disposition"] == name


def test_export_contains_saved_memories(memory_client):
    saved = memory_client.save("Plays the cello", key="music")
    (result,) = memory_client.get(EXPORT)["memories"]
    assert [step["action"] for step in result.pop("history")] == ["created"]
    assert result.items() <= saved.items()


def test_long_export_is_streamed_in_chunks(memory_client, monkeypatch):
    monkeypatch.setattr(export, "MESSAGES_PER_READ", 4)
    store_conversation(identity.derive_user_id(memory_client.user), "plums", turns=25)
    with memory_client.client.stream(
        "GET", EXPORT, params={"safety_identifier": memory_client.user}
    ) as response:
        pieces = list(response.iter_raw())
    assert "content-length" not in response.headers
    assert len(pieces) > 1
    result = json.loads(b"".join(pieces))
    assert len(result["threads"][0]["messages"]) == 100


async def test_export_holds_no_connection_between_chunks(memory_client, monkeypatch):
    """Each chunk takes one database call, which starts once the last chunk is sent."""
    owner = identity.derive_user_id(memory_client.user)
    monkeypatch.setattr(export, "MESSAGES_PER_READ", 4)
    await database_executor.run_to_end(store_conversation, owner, "plums", turns=5)
    first, place = await database_executor.run(export.next_chunk, owner, export.START)
    pieces = user_data.stream_export(owner, first, place)
    written = [await anext(pieces) for _ in range(3)]
    assert await asyncio.wait_for(database_executor.run(erasure.count_rows, owner), 5)
    written += [piece async for piece in pieces]
    assert json.loads(b"".join(written))["object"] == "user.export"


def test_export_with_database_down_is_503(memory_client, monkeypatch):
    def down(user_id, place):
        raise OperationalError("gone")

    monkeypatch.setattr(export, "next_chunk", down)
    assert memory_client.refused("GET", EXPORT, 503)["code"] == "database_unavailable"


async def test_failed_chunk_aborts_the_export(memory_client, monkeypatch):
    owner = identity.derive_user_id(memory_client.user)
    first, place = await database_executor.run(export.next_chunk, owner, export.START)

    def down(user_id, place):
        raise OperationalError("gone")

    monkeypatch.setattr(export, "next_chunk", down)
    pieces = user_data.stream_export(owner, first, place)
    assert await anext(pieces)
    with pytest.raises(DatabaseDown):
        await anext(pieces)


def test_export_contains_nothing_of_another_user(memory_client, other_client):
    store_user_data(identity.derive_user_id(memory_client.user), "plums")
    response = other_client.send("GET", EXPORT)
    assert ok(response)["threads"] == ok(response)["memories"] == []
    assert "plums" not in response.text


# Erasure.


def test_confirmed_erasure_deletes_all_rows(memory_client):
    owner = identity.derive_user_id(memory_client.user)
    store_user_data(owner)
    PendingErasure.objects.filter(user_id=owner).delete()
    confirmation = ok(memory_client.send("DELETE", ME), 202)
    assert confirmation["object"] == "user.erasure"
    assert confirmation["would_delete"]["messages"] == 8
    assert count_rows(owner)["memory.StoredMessage"] == 8
    result = ok(
        memory_client.send("DELETE", ME, confirmation=confirmation["confirmation"])
    )
    assert result == {
        "object": "user.erased",
        "user_id": str(owner),
        "deleted": confirmation["would_delete"],
    }
    assert not any(count_rows(owner).values())


def test_erased_memories_are_not_found(memory_client):
    saved = memory_client.save("Plays the cello")
    assert memory_client.finds("cello") == ["Plays the cello"]
    confirmation = ok(memory_client.send("DELETE", ME), 202)["confirmation"]
    ok(memory_client.send("DELETE", ME, confirmation=confirmation))
    assert memory_client.finds("cello") == memory_client.contents(status="all") == []
    assert memory_client.get(EXPORT)["memories"] == []
    memory_client.refused("GET", f"/v1/memories/{saved['id']}", 404)
    memory_client.save("Sold a cello")
    assert memory_client.finds("cello") == ["Sold a cello"]


def test_confirmation_is_valid_once(memory_client):
    confirmation = ok(memory_client.send("DELETE", ME), 202)["confirmation"]
    ok(memory_client.send("DELETE", ME, confirmation=confirmation))
    memory_client.save("Plays the cello")
    refusal = memory_client.refused("DELETE", ME, confirmation=confirmation)
    assert refusal["code"] == "confirmation_invalid"
    assert refusal["param"] == "confirmation"
    assert memory_client.contents() == ["Plays the cello"]


@pytest.mark.parametrize("confirmation", ["", "yes", "\1", "x" * 5000])
def test_a_wrong_confirmation_erases_nothing(memory_client, confirmation):
    memory_client.save("Plays the cello")
    ok(memory_client.send("DELETE", ME), 202)
    refusal = memory_client.refused("DELETE", ME, confirmation=confirmation)
    assert refusal["code"] == "confirmation_invalid"
    assert memory_client.contents() == ["Plays the cello"]


def test_expired_confirmation_is_refused(memory_client):
    confirmation = ok(memory_client.send("DELETE", ME), 202)["confirmation"]
    pending_erasure = PendingErasure.objects.get(
        user_id=identity.derive_user_id(memory_client.user)
    )
    pending_erasure.expires_at -= timedelta(minutes=16)
    pending_erasure.save()
    refusal = memory_client.refused("DELETE", ME, confirmation=confirmation)
    assert refusal["code"] == "confirmation_expired"


def test_confirmation_of_another_user_is_refused(memory_client, other_client):
    memory_client.save("Plays the cello")
    other_client.save("Plays the viola")
    ok(memory_client.send("DELETE", ME), 202)
    foreign = ok(other_client.send("DELETE", ME), 202)["confirmation"]
    memory_client.refused("DELETE", ME, confirmation=foreign)
    assert memory_client.contents() == ["Plays the cello"]
    assert other_client.contents() == ["Plays the viola"]


def test_erasure_keeps_data_of_other_users(memory_client, other_client):
    store_user_data(identity.derive_user_id(memory_client.user), "plums")
    store_user_data(identity.derive_user_id(other_client.user), "pears")
    before = count_rows(identity.derive_user_id(other_client.user))
    confirmation = ok(memory_client.send("DELETE", ME), 202)["confirmation"]
    ok(memory_client.send("DELETE", ME, confirmation=confirmation))
    assert count_rows(identity.derive_user_id(other_client.user)) == before


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ME), ("POST", ME), ("DELETE", EXPORT)]
)
def test_erasure_refuses_other_methods(memory_client, method, path):
    memory_client.save("Lives in Lisbon")
    memory_client.refused(method, path, 405)
    assert memory_client.contents() == ["Lives in Lisbon"]


@pytest.mark.parametrize(("method", "path"), [("GET", EXPORT), ("DELETE", ME)])
def test_unknown_parameter_is_refused(memory_client, method, path):
    refusal = memory_client.refused(method, path, confirm="yes")
    assert (refusal["param"], refusal["code"]) == ("confirm", "unknown_parameter")


# Turns in progress.


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("metadata", [{}, {"history": "none"}], ids=["kept", "none"])
def test_turn_in_progress_is_not_stored(server, fake, user, stream, metadata):
    owner = identity.derive_user_id(user)
    assert post(server, body(user)).status_code == 200
    fake.reply("Hello", "!", hang="headers")
    request = body(user, stream=stream, metadata=metadata)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(post, server, request)
        fake.wait(lambda: len(fake.requests) == 2)
        erasure.erase_user(owner)
        fake.release()
        answer = running.result()
    assert '"user_erased"' in answer.text
    assert answer.status_code == (200 if stream else 409)
    assert not any(count_rows(owner).values())
    assert post(server, body(user)).status_code == 200
    assert count_rows(owner)["memory.StoredMessage"] == 2


def test_cancelled_turn_is_not_stored_after_an_erasure(server, fake, user):
    owner = identity.derive_user_id(user)
    fake.reply("Hello", "!", hang="mid_stream")
    url, request = f"{server}/v1/chat/completions", body(user, stream=True)
    with httpx2.stream("POST", url, json=request, timeout=60) as answer:
        next(answer.iter_lines())
        erasure.erase_user(owner)
    fake.wait(lambda: fake.requests[0].aborted)
    until(lambda: not ACTIVE_TURNS.count())
    assert not any(count_rows(owner).values())


def test_turn_in_progress_saves_no_memories(running, configure, fake, user):
    configure(CONFIG.replace("    preamble", "    memory_tools: true\n    preamble", 1))
    owner = identity.derive_user_id(user)
    fake.call_tool("save_memory", {"content": "Likes plums"}, hang="headers")
    fake.reply("Noted.")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(post, running, body(user))
        fake.wait(lambda: fake.requests)
        erasure.erase_user(owner)
        fake.release()
        assert answer.result().status_code == 409
    assert "was erased meanwhile" in fake.requests[1].body["messages"][-1]["content"]
    assert not any(count_rows(owner).values())
