"""Conversations: created, changed, listed and deleted, with their items."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import openai
import pytest

from memory.models import StoredMessage, Thread
from tests.gateway.calls import stored, threads
from tests.gateway.openai.responses.shapes import ADD

pytestmark = pytest.mark.database

QUESTION = {"type": "message", "role": "user", "content": "1 + 2?"}
ANSWER = {"role": "assistant", "content": [{"type": "output_text", "text": "Three"}]}
CALL = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "add",
    "arguments": "{}",
}
ROUNDS = 5
"""Of requests at once: not every round meets the moment."""
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "3"}


@pytest.fixture
def own(client: openai.OpenAI, user: str) -> openai.OpenAI:
    """The client of the user."""
    return client.with_options(default_headers={"X-Coulisse-User": user})


@pytest.fixture
def other(client: openai.OpenAI, user: str) -> openai.OpenAI:
    return client.with_options(default_headers={"X-Coulisse-User": f"{user}-other"})


def texts(items) -> list[str]:
    return [
        item.content[0].text if item.type == "message" else item.type for item in items
    ]


def test_conversation_is_created_changed_and_deleted(own, user):
    created = own.conversations.create(metadata={"topic": "sums"})
    assert created.object == "conversation"
    assert created.metadata == {"topic": "sums"}
    assert own.conversations.retrieve(created.id) == created
    changed = own.conversations.update(created.id, metadata={"topic": "more"})
    assert changed.metadata == {"topic": "more"}
    assert own.conversations.delete(created.id).deleted
    with pytest.raises(openai.NotFoundError):
        own.conversations.retrieve(created.id)
    assert threads(user) == []


def test_items_are_the_history_of_responses(own, fake, user):
    created = own.conversations.create(items=[QUESTION, CALL, OUTPUT, ANSWER])
    fake.reply("Four")
    response = own.responses.create(
        model="assistant", input="And 1 + 3?", conversation=created.id
    )
    sent = fake.requests[-1].body["messages"][1:]
    assert [message["role"] for message in sent] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    items = list(own.conversations.items.list(created.id, order="asc", limit=2))
    assert texts(items) == [
        "1 + 2?",
        "function_call",
        "function_call_output",
        "Three",
        "And 1 + 3?",
        "Four",
    ]
    assert items[-1].id == response.output[0].id
    newest_first = list(own.conversations.items.list(created.id, limit=3))
    assert [item.id for item in newest_first] == [item.id for item in items[::-1]]
    for item in items:
        assert (
            own.conversations.items.retrieve(item.id, conversation_id=created.id)
            == item
        )
    assert stored(user, created.id)[-1] == ("assistant", "Four", "stop")


def test_a_reply_with_calls_has_several_items(own, fake):
    created = own.conversations.create()
    fake.reply("So:", tool_calls=[("add", {"a": 1}), ("add", {"a": 2})])
    response = own.responses.create(
        model="assistant", input="Add", tools=[ADD], conversation=created.id
    )
    items = list(own.conversations.items.list(created.id, order="asc", limit=1))
    assert texts(items) == ["Add", "So:", "function_call", "function_call"]
    assert [item.id for item in items[1:]] == [item.id for item in response.output]
    with pytest.raises(openai.BadRequestError):
        own.conversations.items.delete(items[1].id, conversation_id=created.id)


def test_items_are_added_and_deleted(own, user):
    created = own.conversations.create(items=[QUESTION])
    added = own.conversations.items.create(created.id, items=[ANSWER, QUESTION])
    assert texts(added.data) == ["Three", "1 + 2?"]
    own.conversations.items.delete(added.data[0].id, conversation_id=created.id)
    left = own.conversations.items.list(created.id, order="asc")
    assert texts(left) == ["1 + 2?", "1 + 2?"]
    with pytest.raises(openai.NotFoundError):
        own.conversations.items.retrieve(added.data[0].id, conversation_id=created.id)


def test_include_of_items_is_accepted(own):
    made = own.conversations.create()
    optional = {"include": ["reasoning.encrypted_content", "web_search_call.results"]}
    hello = {"type": "message", "role": "user", "content": "Hello"}
    items = own.conversations.items
    [item] = items.create(made.id, items=[hello], **optional).data
    assert items.retrieve(item.id, conversation_id=made.id, **optional).id == item.id
    assert [each.id for each in items.list(made.id, **optional)] == [item.id]


def test_threads_are_conversations(own, fake, user):
    own.chat.completions.create(
        model="assistant",
        messages=[{"role": "user", "content": "Hi"}],
        metadata={"thread_id": "travel"},
    )
    assert own.conversations.retrieve("travel").metadata == {}
    assert texts(own.conversations.items.list("travel", order="asc"))[0] == "Hi"


def test_conversations_of_others_do_not_exist(own, other):
    created = own.conversations.create(items=[QUESTION])
    (item,) = own.conversations.items.list(created.id)
    requests = [
        lambda: other.conversations.retrieve(created.id),
        lambda: other.conversations.update(created.id, metadata={}),
        lambda: other.conversations.delete(created.id),
        lambda: other.conversations.items.list(created.id),
        lambda: other.conversations.items.create(created.id, items=[QUESTION]),
        lambda: other.conversations.items.retrieve(item.id, conversation_id=created.id),
        lambda: other.conversations.items.delete(item.id, conversation_id=created.id),
        lambda: own.conversations.retrieve(f"conv_{uuid.uuid4().hex}"),
        lambda: own.conversations.items.retrieve("msg_1", conversation_id=created.id),
        lambda: own.conversations.items.list(created.id, after="msg_1"),
    ]
    for request in requests:
        with pytest.raises(openai.NotFoundError):
            request()
    assert texts(own.conversations.items.list(created.id)) == ["1 + 2?"]


def test_instructions_are_not_stored(own):
    with pytest.raises(openai.BadRequestError) as refusal:
        own.conversations.create(items=[{"role": "developer", "content": "Be brief"}])
    assert refusal.value.param == "items"


def test_deleted_conversation_leaves_nothing(own, fake, user):
    created = own.conversations.create(items=[QUESTION])
    fake.reply("Three")
    own.responses.create(model="assistant", input="Hi", conversation=created.id)
    thread = Thread.objects.get(name=created.id)
    own.conversations.delete(created.id)
    assert not StoredMessage.objects.filter(thread=thread.pk).exists()
    with pytest.raises(openai.NotFoundError):
        own.responses.create(model="assistant", input="Hi", conversation=created.id)


def test_items_and_their_conversation_are_deleted_at_once(own):
    def status_of(delete):
        try:
            delete()
        except openai.APIStatusError as exc:
            return exc.status_code
        return 200

    def requests(conversation, items):
        deletion = own.conversations.items.delete
        for item in items:
            yield partial(deletion, item.id, conversation_id=conversation.id)
        yield partial(own.conversations.delete, conversation.id)

    statuses = set()
    for _ in range(ROUNDS):
        created = own.conversations.create(items=[QUESTION] * 6)
        items = list(own.conversations.items.list(created.id))
        with ThreadPoolExecutor(len(items) + 1) as pool:
            statuses |= {*pool.map(status_of, requests(created, items))}
    assert statuses <= {200, 404}
