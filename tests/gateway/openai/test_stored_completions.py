"""Stored chat completions, with OpenAI's client."""

import uuid

import httpx2
import openai
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core import ids
from core.events import Usage
from memory.models import StoredCompletion, StoredMessage
from tests.gateway.calls import body, post
from turns import stored_completions

pytestmark = pytest.mark.database


@pytest.fixture
def sdk(server, user):
    headers = {"X-Coulisse-User": user}
    with openai.OpenAI(
        base_url=f"{server}/v1",
        api_key="unused",
        max_retries=0,
        default_headers=headers,
    ) as client:
        yield client


def say(text):
    return [{"role": "user", "content": text}]


def create(sdk, text="hi", **more):
    more = {"model": "assistant", "store": True, **more}
    return sdk.chat.completions.create(messages=say(text), **more)


def test_stored_completion_is_read_changed_and_deleted(sdk, fake):
    fake.reply("Hello", usage=Usage(7, 3))
    created = create(sdk, metadata={"topic": "tea"})
    found = sdk.chat.completions.retrieve(created.id)
    assert found.metadata == {"topic": "tea"}
    assert found.choices == created.choices
    assert found.usage == created.usage
    assert (found.model, found.created) == ("assistant", created.created)
    changed = sdk.chat.completions.update(created.id, metadata={"topic": "ham"})
    assert changed.metadata == {"topic": "ham"}
    assert sdk.chat.completions.retrieve(created.id).metadata == {"topic": "ham"}
    deleted = sdk.chat.completions.delete(created.id)
    assert (deleted.id, deleted.deleted) == (created.id, True)
    with pytest.raises(openai.NotFoundError, match="not found"):
        sdk.chat.completions.retrieve(created.id)
    turn_id = ids.parse_turn_id(created.id)
    assert not StoredCompletion.objects.filter(message__turn_id=turn_id).exists()
    assert not StoredMessage.objects.filter(turn_id=turn_id).exists()


def test_metadata_may_have_nul_characters(sdk, fake):
    created = create(sdk, metadata={"a\0": "b\0"})
    replaced = {"a\ufffd": "b\ufffd"}
    assert sdk.chat.completions.retrieve(created.id).metadata == replaced
    changed = sdk.chat.completions.update(created.id, metadata={"\0": "\0"})
    assert changed.metadata == {"\ufffd": "\ufffd"}


def test_deleted_completion_is_not_stored_again(sdk, fake):
    created = create(sdk)
    found = StoredCompletion.objects.get(
        message__turn_id=ids.parse_uuid(created.id, prefix="chatcmpl-")
    )
    sdk.chat.completions.delete(created.id)
    found.set_metadata({"topic": "tea"})
    assert not StoredCompletion.objects.filter(pk=found.pk).exists()


def test_calls_of_client_tools_are_kept(sdk, fake):
    function = {"name": "add", "parameters": {"type": "object"}}
    fake.call_tool("add", {"a": 1})
    created = create(sdk, tools=[{"type": "function", "function": function}])
    (choice,) = sdk.chat.completions.retrieve(created.id).choices
    assert choice == created.choices[0]
    assert choice.finish_reason == "tool_calls"


def test_streamed_completions_are_stored(sdk, fake):
    fake.reply("Hel", "lo")
    chunks = list(create(sdk, stream=True))
    found = sdk.chat.completions.retrieve(chunks[0].id)
    assert found.choices[0].message.content == "Hello"


def test_only_completions_with_store_are_listed(sdk, fake):
    one, other = create(sdk, "one"), create(sdk, "two", model="claude")
    hidden = create(sdk, "three", store=False)
    create(sdk, "four", store=None)
    listed = [each.id for each in sdk.chat.completions.list()]
    assert listed == [one.id, other.id]
    assert [e.id for e in sdk.chat.completions.list(order="desc")] == listed[::-1]
    assert [e.id for e in sdk.chat.completions.list(model="claude")] == [other.id]
    for completion_id in (hidden.id, "chatcmpl-none", f"chatcmpl-{uuid.uuid4().hex}"):
        with pytest.raises(openai.NotFoundError):
            sdk.chat.completions.retrieve(completion_id)


def test_list_has_pages_and_filters_by_metadata(sdk, fake):
    created = [
        create(sdk, f"{number}", metadata={"kind": "odd" if number % 2 else "even"})
        for number in range(5)
    ]
    ids = [each.id for each in created]
    assert [each.id for each in sdk.chat.completions.list(limit=2)] == ids
    page = sdk.chat.completions.list(limit=2, order="desc")
    assert ([each.id for each in page.data], page.has_more) == (ids[:2:-1], True)
    odd = sdk.chat.completions.list(metadata={"kind": "odd"})
    assert [each.id for each in odd] == [ids[1], ids[3]]
    assert not list(sdk.chat.completions.list(metadata={"kind": "odd", "0": "x"}))


def test_messages_are_listed(sdk, fake):
    image = "https://example.com/a.png"
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": image}},
    ]
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "user", "content": parts, "name": "ada"},
    ]
    created = sdk.chat.completions.create(
        model="assistant", messages=messages, store=True
    )
    first, second = sdk.chat.completions.messages.list(created.id, limit=1)
    assert (first.id, first.role, first.content) == (f"{created.id}-0", "user", "Hello")
    assert first.content_parts is None
    assert second.to_dict()["content_parts"] == parts
    newest, _ = sdk.chat.completions.messages.list(created.id, order="desc")
    assert newest.id == second.id


def test_completions_of_others_do_not_exist(sdk, fake):
    created = create(sdk)
    other = sdk.with_options(default_headers={"X-Coulisse-User": "other"})
    completions = other.chat.completions
    assert list(completions.list()) == []
    for call in (
        lambda: completions.retrieve(created.id),
        lambda: completions.update(created.id, metadata={}),
        lambda: completions.delete(created.id),
        lambda: completions.messages.list(created.id),
    ):
        with pytest.raises(openai.NotFoundError):
            call()
    with pytest.raises(openai.BadRequestError, match="last_id"):
        completions.list(after=created.id)
    assert sdk.chat.completions.retrieve(created.id).metadata == {}


def test_incognito_completions_are_not_listed(sdk, fake):
    create(sdk, metadata={"memory": "incognito"})
    create(sdk, metadata={"history": "none"})
    assert list(sdk.chat.completions.list()) == []


def test_failed_completions_are_not_listed(sdk, fake):
    fake.fail(400)
    with pytest.raises(openai.APIStatusError):
        create(sdk)
    assert list(sdk.chat.completions.list()) == []


def test_deletion_of_a_thread_deletes_its_completions(server, sdk, user, fake):
    kept = create(sdk)
    create(sdk, metadata={"thread_id": "a"})
    sdk.conversations.delete("a")
    assert [each.id for each in sdk.chat.completions.list()] == [kept.id]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=1000", "limit"),
        ("order=x", "order"),
        ("after=nonsense", "after"),
        ("nonsense=1", "nonsense"),
        (f"metadata[{'k' * 65}]=v", "metadata"),
        (f"metadata[k]={'v' * 513}", "metadata"),
        ("&".join(f"metadata[{n}]=v" for n in range(17)), "metadata"),
    ],
)
def test_bad_queries_are_refused(server, user, query, param):
    url = f"{server}/v1/chat/completions?safety_identifier={user}&{query}"
    answer = httpx2.get(url)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"].removeprefix("query.").startswith(param)


@pytest.mark.parametrize(
    "change", [{}, {"metadata": "x"}, {"metadata": {"a": 1}}, {"metadata": {}, "x": 1}]
)
def test_bad_changes_are_refused(server, user, fake, change):
    created = post(server, body(user, store=True)).json()
    url = f"{server}/v1/chat/completions/{created['id']}?safety_identifier={user}"
    assert httpx2.post(url, json=change).status_code == 400
    change = {"metadata": None}
    assert httpx2.post(url, json=change).json()["metadata"] == {}


def test_page_of_completions_costs_few_queries(sdk, fake):
    for number in range(4):
        create(sdk, f"{number}", metadata={"kind": "odd" if number % 2 else "even"})
    user_id = StoredCompletion.objects.latest("pk").user_id
    select = {"agent": None, "after": None, "is_descending": False, "limit": 10}
    with CaptureQueriesContext(connection) as all_four:
        found = stored_completions.read_page(user_id, metadata={}, **select)
    assert [each.turn.input[0][1].text for each in found] == list("0123")
    with CaptureQueriesContext(connection) as two:
        stored_completions.read_page(user_id, metadata={"kind": "odd"}, **select)
    # Completions, replies, messages and records.
    assert (len(all_four), len(two)) == (4, 4)
