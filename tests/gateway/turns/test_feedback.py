"""`/v1/feedback`: users rate replies."""

import uuid
from threading import Event, Thread

import pytest
from django.db import connection, transaction

from access.users import identity
from core import ids
from judges.models import Feedback as Row
from judges.schemas import DeletedFeedback, FeedbackObject, NewFeedback
from memory.user_data import erasure
from tests.docs.pages import names_in_table
from tests.gateway.calls import ask
from tests.gateway.memory_client import ok

pytestmark = pytest.mark.database

PATH = "/v1/feedback"


@pytest.fixture
def reply(client, memory_client) -> str:
    """The completion id of a reply to the user."""
    return ask(client, memory_client.user, "What is the weather?").id


def send_feedback(memory_client, message: str, **text):
    return ok(memory_client.send("POST", PATH, {"message_id": message, **text}))


def rows(memory_client) -> list[Row]:
    return list(Row.objects.filter(user_id=identity.derive_user_id(memory_client.user)))


@pytest.mark.parametrize(
    "message", [{"score": 0}, {"score": 10, "comment": "Just so."}, {"thumb": "down"}]
)
def test_user_submits_feedback(memory_client, reply, message):
    result = send_feedback(memory_client, reply, **message)
    assert {name: result[name] for name in message} == message
    assert result["message_id"] == reply
    assert result["agent"] == "assistant"
    assert memory_client.get(f"{PATH}/{reply}") == result
    FeedbackObject.model_validate(result)


def test_feedback_accepts_all_forms_of_message_id(memory_client, reply):
    turn = str(uuid.UUID(reply.removeprefix("chatcmpl-")))
    result = send_feedback(memory_client, turn, thumb="up")
    assert (result["turn_id"], result["message_id"]) == (turn, reply)
    assert memory_client.get(f"{PATH}/{turn}") == result


def test_second_feedback_replaces_the_first(memory_client, reply):
    first = send_feedback(memory_client, reply, score=3, comment="Wrong town.")
    second = send_feedback(memory_client, reply, thumb="up")
    assert (second["score"], second["thumb"], second["comment"]) == (None, "up", None)
    assert second["created_at"] == first["created_at"]
    assert second["updated_at"] > first["updated_at"]
    assert len(rows(memory_client)) == 1


def test_feedback_can_be_deleted(memory_client, reply):
    send_feedback(memory_client, reply, score=3)
    result = ok(memory_client.send("DELETE", f"{PATH}/{reply}"))
    assert result == {
        "object": "feedback.deleted",
        "message_id": reply,
        "deleted": True,
    }
    DeletedFeedback.model_validate(result)
    for method in ("GET", "DELETE"):
        error = memory_client.refused(method, f"{PATH}/{reply}", 404)
        assert error["code"] == "feedback_not_found"
    assert rows(memory_client) == []


def test_feedback_on_another_users_message_is_refused(
    memory_client, other_client, reply
):
    send_feedback(memory_client, reply, score=3)
    body = {"message_id": reply, "score": 9}
    refusal = other_client.refused("POST", PATH, 404, body=body)
    unknown = {"message_id": str(uuid.uuid4()), "score": 9}
    assert refusal == other_client.refused("POST", PATH, 404, body=unknown)
    assert (refusal["code"], refusal["param"]) == ("message_not_found", "message_id")
    other_client.refused("GET", f"{PATH}/{reply}", 404)
    other_client.refused("DELETE", f"{PATH}/{reply}", 404)
    assert [row.score for row in rows(memory_client)] == [3]


def test_feedback_on_incognito_turn_is_refused(client, memory_client):
    message = ask(client, memory_client.user, metadata={"memory": "incognito"}).id
    body = {"message_id": message, "thumb": "up"}
    assert memory_client.refused("POST", PATH, 404, body=body)["message"]


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({}, "score"),
        ({"comment": "Fine."}, "score"),
        ({"score": 5, "thumb": "up"}, "thumb"),
        ({"score": 11}, "score"),
        ({"score": -1}, "score"),
        ({"score": 7.5}, "score"),
        ({"score": "7"}, "score"),
        ({"score": True}, "score"),
        ({"thumb": "sideways"}, "thumb"),
        ({"score": 5, "comment": "x" * 4_001}, "comment"),
        ({"score": 5, "comment": "\0"}, "comment"),
        ({"score": 5, "rating": 5}, "rating"),
    ],
)
def test_empty_feedback_is_refused(memory_client, reply, message, param):
    error = memory_client.refused("POST", PATH, body={"message_id": reply, **message})
    assert error["param"] == param
    assert rows(memory_client) == []


def test_feedback_must_name_its_message(memory_client, reply):
    assert (
        memory_client.refused("POST", PATH, body={"score": 1})["param"] == "message_id"
    )
    for name in ("", "x", "chatcmpl-", "0" * 33):
        body = {"message_id": name, "score": 1}
        assert (
            memory_client.refused("POST", PATH, 404, body=body)["param"] == "message_id"
        )


def test_feedback_is_in_the_openapi_document(memory_client):
    paths = memory_client.get("/v1/openapi.json")["paths"]
    assert paths[PATH]["post"]["tags"] == ["Feedback"]
    assert {"get", "delete"} <= paths[f"{PATH}/{{message_id}}"].keys()


def test_feedback_fields_are_documented():
    assert (
        names_in_table("judges.md", "field of feedback")
        == NewFeedback.model_fields.keys()
    )


def test_erasure_deletes_feedback(memory_client, reply):
    send_feedback(memory_client, reply, score=3, comment="Secret.")
    assert (
        erasure.erase_user(identity.derive_user_id(memory_client.user))["feedback"] == 1
    )
    assert rows(memory_client) == []
    memory_client.refused("POST", PATH, 404, body={"message_id": reply, "score": 1})


def test_feedback_during_erasure_is_not_stored(memory_client, reply):
    user_id, erased = identity.derive_user_id(memory_client.user), Event()

    def erase() -> None:
        erasure.erase_user(user_id)
        erased.set()
        connection.close()

    eraser = Thread(target=erase)
    with transaction.atomic():
        turn_id = ids.parse_turn_id(reply)
        Row.objects.rate(user_id, turn_id, score=3)
        eraser.start()
        assert not erased.wait(0.05), "it did not wait"
    eraser.join(60)
    assert erased.is_set()
    assert rows(memory_client) == []
