"""Responses that continue a conversation: after another one, or of a thread."""

import uuid

import httpx
import pytest

from access.users import identity
from memory.models import Passage
from tasks.models import Task
from tests.gateway.calls import body as chat_body
from tests.gateway.calls import error, stored
from tests.gateway.calls import post as chat
from tests.gateway.openai.responses.shapes import ADD, body, post, respond
from tests.gateway.openai.responses.test_stored import Api

pytestmark = pytest.mark.database


@pytest.fixture
def api(http, user) -> Api:
    return Api(http, user)


def sent(fake) -> list[str]:
    """Return what the model received last, after the agent's preamble."""
    messages = fake.requests[-1].body["messages"][1:]
    return [message["content"] for message in messages]


def say(server, fake, user, text, reply, **more):
    fake.reply(reply)
    return respond(server, body(user, text, **more))


def test_response_follows_the_previous_one(server, fake, user):
    first = say(server, fake, user, "one", "1", instructions="Be brief")
    say(server, fake, user, "two", "2", previous_response_id=first["id"])
    assert sent(fake) == ["one", "1", "two"]
    say(server, fake, user, "three", "3", previous_response_id=first["id"])
    assert sent(fake) == ["one", "1", "three"]
    say(server, fake, user, "four", "4")
    assert sent(fake) == ["one", "1", "three", "3", "four"]


def test_parallel_chains_stay_apart(server, fake, user):
    first = say(server, fake, user, "a1", "A1", metadata={"thread_id": "a"})
    other = say(server, fake, user, "b1", "B1", metadata={"thread_id": "b"})
    first = say(server, fake, user, "a2", "A2", previous_response_id=first["id"])
    assert sent(fake) == ["a1", "A1", "a2"]
    say(server, fake, user, "b2", "B2", previous_response_id=other["id"])
    assert sent(fake) == ["b1", "B1", "b2"]
    say(server, fake, user, "a3", "A3", previous_response_id=first["id"])
    assert sent(fake) == ["a1", "A1", "a2", "A2", "a3"]


def test_tool_results_follow_the_calls_of_the_previous_response(server, fake, user):
    fake.call_tool("add", {"a": 1})
    first = respond(server, body(user, "1 + 2?", tools=[ADD]))
    result = {
        "type": "function_call_output",
        "call_id": first["output"][-1]["call_id"],
        "output": "3",
    }
    respond(server, body(user, [result], tools=[ADD], previous_response_id=first["id"]))
    roles = [message["role"] for message in fake.requests[-1].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]


def test_a_chat_completion_can_be_continued(server, fake, user):
    fake.reply("1")
    completion = chat(server, chat_body(user, "one")).json()
    previous = completion["id"].replace("chatcmpl-", "resp_")
    say(server, fake, user, "two", "2", previous_response_id=previous)
    assert sent(fake) == ["one", "1", "two"]


def test_unknown_previous_responses_are_not_found(server, fake, user):
    first = say(server, fake, user, "one", "1")
    unstored = say(server, fake, user, "two", "2", store=False)
    unknown = [f"resp_{uuid.uuid4().hex}", unstored["id"], "resp_x", ""]
    for response_id in unknown:
        refusal = error(post(server, body(user, previous_response_id=response_id)), 404)
        assert refusal["code"] == "previous_response_not_found"
    others = body(f"{user}-other", previous_response_id=first["id"])
    assert error(post(server, others), 404)["param"] == "previous_response_id"


def test_pending_background_response_cannot_be_continued(server, fake, user, api):
    pending = respond(server, body(user, background=True))
    request = body(user, previous_response_id=pending["id"])
    assert error(post(server, request), 409)["param"] == "previous_response_id"
    assert api.delete(pending["id"], 409)["code"] == "turn_running"
    api.cancel(pending["id"])
    ended = error(post(server, request), 400)
    assert ended["code"] == "previous_response_without_reply"
    api.delete(pending["id"])
    api.get(pending["id"], 404)
    assert not Task.objects.filter(pk=uuid.UUID(pending["id"][5:])).exists()


CONTRADICTIONS = {
    "thread": ({"metadata": {"thread_id": "other"}}, "previous_response_id"),
    "replies": ({"input": [{"role": "assistant", "content": "x"}]}, "input"),
    "client": ({"metadata": {"history": "client"}}, "metadata.history"),
    "incognito": ({"metadata": {"memory": "incognito"}}, "metadata.memory"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradictions_are_refused(server, fake, user, case):
    more, param = CONTRADICTIONS[case]
    first = say(server, fake, user, "one", "1")
    request = {**body(user, previous_response_id=first["id"]), **more}
    assert error(post(server, request), 400)["param"] == param


def test_deleted_response_leaves_the_conversation(server, fake, user, api, http):
    say(server, fake, user, "one", "1")
    second = say(server, fake, user, "two", "2")
    assert Api(http, f"{user}-other").delete(second["id"], 404)
    assert api.delete(second["id"])["deleted"] is True
    assert api.get(second["id"], 404)
    assert stored(user) == [("user", "one", ""), ("assistant", "1", "stop")]
    say(server, fake, user, "three", "3")
    assert sent(fake) == ["one", "1", "three"]
    assert api.delete(second["id"], 404)
    owner = identity.derive_user_id(user)
    assert not Passage.objects.filter(user_id=owner, message__text="two").exists()


def test_deleted_first_response_leaves_the_later_ones(server, fake, user, api):
    first = say(server, fake, user, "one", "1")
    second = say(server, fake, user, "two", "2")
    api.delete(first["id"])
    say(server, fake, user, "three", "3", previous_response_id=second["id"])
    assert sent(fake) == ["two", "2", "three"]


def test_conversation_names_a_thread(server, fake, user):
    say(server, fake, user, "one", "1", metadata={"thread_id": "travel"})
    say(server, fake, user, "else", "x")
    answer = say(server, fake, user, "two", "2", conversation="travel")
    assert sent(fake) == ["one", "1", "two"]
    assert answer["conversation"] == {"id": "travel"}
    say(server, fake, user, "three", "3", conversation={"id": "travel"})
    assert sent(fake) == ["one", "1", "two", "2", "three"]
    for name, caller in [("nowhere", user), ("travel", f"{user}-other")]:
        refusal = error(post(server, body(caller, conversation=name)), 404)
        assert refusal["code"] == "conversation_not_found"
    two = body(user, conversation="travel", metadata={"thread_id": "other"})
    assert error(post(server, two), 400)["param"] == "conversation"


def test_conversation_with_nul_is_refused(server, fake, user):
    refusal = error(post(server, body(user, conversation="a\0b")), 400)
    assert refusal["param"] == "conversation"
    assert "NUL" in refusal["message"]


def test_stream_after_a_deleted_response_fails_with_remedy(server, fake, user, api):
    first = say(server, fake, user, "one", "1")
    fake.hang("mid_stream")
    request = body(user, "two", previous_response_id=first["id"], stream=True)
    with httpx.stream("POST", f"{server}/v1/responses", json=request) as response:
        lines = response.iter_lines()
        assert any("output_text.delta" in line for line in lines)
        api.delete(first["id"])
        fake.release()
        rest = "\n".join(lines)
    assert '"code":"reply_not_found"' in rest
    assert "was deleted meanwhile: send" in rest
    assert stored(user) == []
