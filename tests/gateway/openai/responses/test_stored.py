"""Stored and background responses: read, listed, referred to, cancelled."""

import uuid
from datetime import timedelta

import httpx2
import openai
import pytest
from django.db.models import F

from core import ids
from memory.models import StoredMessage
from tasks.models import Task
from tests.conftest import CONFIG
from tests.gateway.calls import error
from tests.gateway.openai.responses.shapes import ADD, RESPONSE, body, post, respond
from tests.tasks.conftest import (  # noqa: F401
    RunnerHarness,
    task_runner,
    user_id,
)

pytestmark = pytest.mark.database


class Api:
    """Requests of one user."""

    def __init__(self, client: httpx2.Client, user: str) -> None:
        self._client = client
        self._headers = {"X-Coulisse-User": user}

    def get(self, path: str, status: int = 200) -> dict:
        return self._read(
            self._client.get(f"/v1/responses/{path}", headers=self._headers), status
        )

    def delete(self, response_id: str, status: int = 200) -> dict:
        path = f"/v1/responses/{response_id}"
        return self._read(self._client.delete(path, headers=self._headers), status)

    def cancel(self, response_id: str, status: int = 200) -> dict:
        path = f"/v1/responses/{response_id}/cancel"
        return self._read(self._client.post(path, headers=self._headers), status)

    def _read(self, answer: httpx2.Response, status: int) -> dict:
        if status != 200:
            return error(answer, status)
        assert answer.status_code == 200, answer.text
        if answer.json()["object"] == "response":
            RESPONSE.validate_json(answer.content)
        return answer.json()


@pytest.fixture
def api(http, user) -> Api:
    return Api(http, user)


def test_response_is_retrieved_as_it_was(server, fake, user, api):
    fake.reply("So:", tool_calls=[("add", {"a": 1})])
    created = respond(server, body(user, tools=[ADD]))
    retrieved = api.get(created["id"])
    for name in ("id", "output", "usage", "status", "model"):
        assert retrieved[name] == created[name], name
    assert abs(retrieved["created_at"] - created["created_at"]) <= 1


STORED = {
    "metadata": {"topic": "sums", "nul": "a\0b"},
    "max_output_tokens": 50,
    "temperature": 0,
}


@pytest.mark.parametrize("background", [False, True])
def test_parameters_are_retrieved(server, fake, user, api, background):
    given = STORED
    if background:
        # Tasks refuse NUL characters.
        given = {**STORED, "metadata": {"topic": "sums"}}
    created = respond(server, body(user, background=background, **given))
    retrieved = api.get(created["id"])
    for name, value in given.items():
        assert retrieved[name] == value, name
    first = respond(server, body(user))
    follower = respond(server, body(user, previous_response_id=first["id"]))
    retrieved = api.get(follower["id"])
    assert retrieved["previous_response_id"] == first["id"]


ECHOED = {
    "instructions": "Be brief",
    "tools": [{**ADD, "strict": True}],
    "tool_choice": {"type": "function", "name": "add"},
    "parallel_tool_calls": False,
    "reasoning": {"effort": "low"},
    "text": {"verbosity": "low"},
}


@pytest.mark.parametrize("background", [False, True])
def test_retrieved_response_repeats_its_request(server, fake, user, api, background):
    created = respond(server, body(user, **ECHOED, background=background))
    retrieved = api.get(created["id"])
    assert {name: retrieved[name] for name in ECHOED} == {
        name: created[name] for name in ECHOED
    }
    assert retrieved["instructions"] == "Be brief"
    assert retrieved["tools"][0]["name"] == "add"


def test_large_fields_of_a_request_are_not_kept(server, fake, user, api):
    large = "x" * 70_000
    created = respond(server, body(user, instructions=large, temperature=0.5))
    assert created["instructions"] == large
    retrieved = api.get(created["id"])
    assert (retrieved["instructions"], retrieved["temperature"]) == (None, 0.5)


def test_incomplete_response_stays_incomplete(server, fake, user, api):
    fake.reply("Hel", finish="length")
    created = respond(server, body(user))
    retrieved = api.get(created["id"])
    assert retrieved["status"] == "incomplete"
    assert retrieved["incomplete_details"] == {"reason": "max_output_tokens"}


def test_unstored_response_cannot_be_retrieved(server, fake, user, api):
    created = respond(server, body(user, store=False))
    assert created["store"] is False
    assert api.get(created["id"], 404)["code"] == "response_not_found"


def test_responses_of_others_do_not_exist(server, fake, user, http, api):
    created = respond(server, body(user))
    other = Api(http, f"{user}-other")
    for path in (created["id"], f"{created['id']}/input_items"):
        assert other.get(path, 404)["code"] == "response_not_found"
    assert other.cancel(created["id"], 404)["code"] == "response_not_found"
    for unknown in ("resp_1", f"resp_{uuid.uuid4().hex}", uuid.uuid4().hex, "x"):
        assert api.get(unknown, 404)["code"] == "response_not_found"


def test_input_items_are_listed_in_pages(server, fake, user, api):
    items = [
        {"role": "user", "content": "1 + 2?"},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "See"},
                {"type": "input_file", "file_data": "aGk=", "filename": "a.txt"},
            ],
        },
        {"role": "user", "content": "And?"},
    ]
    created = respond(server, body(user, items))
    path = f"{created['id']}/input_items"
    listed = api.get(f"{path}?order=asc")["data"]
    assert [item["content"] for item in listed] == [
        [{"type": "input_text", "text": "1 + 2?"}],
        items[1]["content"],
        [{"type": "input_text", "text": "And?"}],
    ]
    first = api.get(f"{path}?limit=2")
    assert [item["id"] for item in first["data"]] == [
        item["id"] for item in listed[:0:-1]
    ]
    assert first["has_more"]
    rest = api.get(f"{path}?limit=2&after={first['last_id']}")
    assert [item["id"] for item in rest["data"]] == [listed[0]["id"]]
    assert not rest["has_more"]
    assert api.get(f"{path}?after=x", 400)["param"] == "after"


def test_official_client_lists_the_items_of_a_tool_loop(client, fake, user):
    fake.reply("So:", tool_calls=[("add", {"a": 1})])
    headers = {"X-Coulisse-User": user}
    first = client.responses.create(
        model="assistant", input="1 + 2?", tools=[ADD], extra_headers=headers
    )
    call = first.output[-1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "3"}
    second = client.responses.create(
        model="assistant", input=[result], tools=[ADD], extra_headers=headers
    )
    (item,) = client.responses.input_items.list(second.id, extra_headers=headers)
    assert (item.type, item.call_id, item.output) == (
        "function_call_output",
        call.call_id,
        "3",
    )


def test_item_references_are_the_items(server, fake, user):
    fake.reply("So:", tool_calls=[("add", {"a": 1}), ("add", {"a": 2})])
    first = respond(server, body(user, "1 + 2?", tools=[ADD]))
    references = [
        {"type": "item_reference", "id": item["id"]} for item in first["output"]
    ]
    results = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "3"}
        for item in first["output"]
        if item["type"] == "function_call"
    ]
    question = {"role": "user", "content": "1 + 2?"}
    request = body(user, [question, *references, *results], tools=[ADD])
    respond(server, request | {"metadata": {"history": "client"}})
    _, asked, reply, *_ = fake.requests[-1].body["messages"]
    assert asked["content"] == "1 + 2?"
    assert reply["content"] == "So:"
    assert len(reply["tool_calls"]) == 2
    stranger = error(post(server, request | {"safety_identifier": "other"}), 404)
    assert stranger["param"] == "input[1].id"


def test_background_response_is_a_task(
    server,
    fake,
    user,
    api,
    task_runner: RunnerHarness,  # noqa: F811
):
    fake.reply("Hello", tool_calls=[("add", {"a": 1})])
    created = respond(
        server,
        body(
            user,
            [{"role": "user", "content": "Hi\0"}],
            background=True,
            tools=[{**ADD, "description": "NUL \0"}],
            instructions="Be brief",
            temperature=0,
        ),
    )
    assert (created["status"], created["background"]) == ("queued", True)
    assert api.get(created["id"])["status"] == "queued"
    (item,) = api.get(f"{created['id']}/input_items")["data"]
    assert item["content"][0]["text"] == "Hi\ufffd"
    task = Task.objects.get(pk=ids.parse_uuid(created["id"], prefix="resp_"))
    task_runner.check_queue()
    task_runner.wait_for_end(task)
    done = api.get(created["id"])
    assert (done["status"], done["id"]) == ("completed", created["id"])
    assert [item["type"] for item in done["output"]] == ["message", "function_call"]
    sent = fake.requests[-1].body
    assert sent["messages"][1]["content"] == "Be brief"
    assert sent["temperature"] == 0
    assert sent["tools"][0]["function"]["name"] == "add"
    assert api.cancel(created["id"])["status"] == "completed"


def test_background_response_is_cancelled(server, fake, user, api):
    created = respond(server, body(user, background=True))
    assert api.cancel(created["id"])["status"] == "cancelled"
    assert api.get(created["id"])["status"] == "cancelled"


def test_failed_background_response_has_its_error(
    server,
    fake,
    user,
    api,
    task_runner: RunnerHarness,  # noqa: F811
    monkeypatch,
):
    monkeypatch.setattr("tasks.queue.task_kinds.MIN_BACKOFF_SECONDS", 0.0)
    fake.fail(400, "bad request")
    created = respond(server, body(user, background=True))
    task = Task.objects.get(pk=ids.parse_uuid(created["id"], prefix="resp_"))
    task_runner.check_queue()
    task_runner.wait_for_end(task)
    failed = api.get(created["id"])
    assert failed["status"] == "failed"
    assert "bad request" in failed["error"]["message"]


def test_background_needs_to_be_stored(server, user):
    refusal = error(post(server, body(user, background=True, store=False)), 400)
    assert refusal["param"] == "store"
    request = body(user, background=True, metadata={"history": "none"})
    assert error(post(server, request), 400)["param"] == "metadata.history"


def test_background_needs_an_agent_that_stores(server, user, configure):
    configure(CONFIG + "\nhistory: none\n")
    request = body(user, background=True)
    assert error(post(server, request), 400)["param"] == "metadata.history"
    request["metadata"] = {"history": "auto"}
    assert respond(server, request)["status"] == "queued"


KINDS = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
]


def test_stored_response_is_streamed_again(client, fake, user, api):
    headers = {"X-Coulisse-User": user}
    fake.reply("So:", tool_calls=[("add", {"a": 1})])
    created = client.responses.create(
        model="assistant", input="Hi", tools=[ADD], extra_headers=headers
    )
    turn = StoredMessage.objects.filter(turn_id=ids.parse_turn_id(created.id))
    turn.update(created_at=F("created_at") - timedelta(hours=1))
    events = list(
        client.responses.retrieve(created.id, stream=True, extra_headers=headers)
    )
    assert [event.type for event in events][: len(KINDS)] == KINDS
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.completed"
    assert events[-1].response.to_dict() == api.get(created.id)
    later = client.responses.retrieve(
        created.id,
        stream=True,
        starting_after=3,
        include=["reasoning.encrypted_content"],
        include_obfuscation=True,
        extra_headers=headers,
    )
    assert [event.to_dict() for event in later] == [
        event.to_dict() for event in events[4:]
    ]


def test_background_response_is_streamed_when_it_ends(
    client,
    fake,
    user,
    task_runner: RunnerHarness,  # noqa: F811
):
    fake.reply("Hello")
    stream = client.responses.create(
        model="assistant",
        input="Hi",
        background=True,
        stream=True,
        extra_headers={"X-Coulisse-User": user},
    )
    created = next(stream).response
    task = Task.objects.get(pk=ids.parse_uuid(created.id, prefix="resp_"))
    task_runner.check_queue()
    task_runner.wait_for_end(task)
    events = list(stream)
    assert events[-1].type == "response.completed"
    assert (events[-1].response.id, events[-1].response.output_text) == (
        created.id,
        "Hello",
    )


def test_stream_of_a_cancelled_response_ends(client, user, api, server):
    created = respond(server, body(user, background=True))
    api.cancel(created["id"])
    events = client.responses.retrieve(
        created["id"], stream=True, extra_headers={"X-Coulisse-User": user}
    )
    *_, last = events
    assert (last.type, last.response.status) == ("response.failed", "cancelled")


def test_stream_of_a_deleted_response_ends(client, fake, user):
    headers = {"X-Coulisse-User": user}
    stream = client.responses.create(
        model="assistant",
        input="Hi",
        background=True,
        stream=True,
        extra_headers=headers,
    )
    created = next(stream).response
    Task.objects.filter(pk=ids.parse_uuid(created.id, prefix="resp_")).delete()
    *_, problem, last = stream
    assert (problem.type, problem.code) == ("error", "response_not_found")
    assert last.type == "response.failed"


def test_no_large_field_is_kept(server, fake, user, api):
    created = respond(
        server, body(user, prompt_cache_key="x" * 70_000, temperature=0.5)
    )
    retrieved = api.get(created["id"])
    assert len(str(retrieved)) < 10_000
    assert retrieved["temperature"] == 0.5


@pytest.mark.parametrize("query", ["stream=maybe", "starting_after=-1", "x=1"])
def test_bad_queries_of_a_response_are_refused(http, user, server, fake, query):
    created = respond(server, body(user))
    headers = {"X-Coulisse-User": user}
    url = f"/v1/responses/{created['id']}?include[]=reasoning.encrypted_content"
    assert http.get(url, headers=headers).status_code == 200
    refusal = error(http.get(f"{url}&{query}", headers=headers), 400)
    assert refusal["param"] == query.partition("=")[0]


def test_foreground_response_cannot_be_cancelled(client, fake, user):
    created = client.responses.create(
        model="assistant", input="Hi", extra_headers={"X-Coulisse-User": user}
    )
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(created.id, extra_headers={"X-Coulisse-User": user})
