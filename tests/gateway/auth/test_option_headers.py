"""Headers that set options of a turn: its thread, and how its messages are read."""

import pytest

from access.tokens import api_tokens
from access.users.caller import from_token
from tests.access.actors import ADA
from tests.gateway.calls import body, error, post, prompt, refused, stored, threads

pytestmark = pytest.mark.database

THREAD = "X-Coulisse-Thread"
HISTORY = "X-Coulisse-History"


@pytest.mark.parametrize("stream", [True, False])
def test_thread_header_names_the_thread(client, fake, user, stream):
    fake.reply("hello")
    reply = client.chat.completions.create(
        model="assistant",
        messages=[{"role": "user", "content": "hi"}],
        user=user,
        extra_headers={THREAD: "work"},
        stream=stream,
    )
    assert list(reply)
    assert threads(user) == ["work"]


def test_thread_header_may_repeat_the_metadata(server, fake, user):
    fake.reply("hello")
    content = body(user, "hi", metadata={"thread_id": "work"})
    headers = [(THREAD, "work"), (THREAD.lower(), "work")]
    assert post(server, content, headers=headers).status_code == 200
    assert len(stored(user, "work")) == 2


@pytest.mark.parametrize(
    ("headers", "metadata"),
    [
        ({THREAD: "a"}, {"thread_id": "b"}),
        ([(THREAD, "a"), (THREAD, "b")], {}),
    ],
    ids=["metadata", "repeated"],
)
def test_two_threads_are_refused(server, fake, user, headers, metadata):
    content = body(user, "hi", metadata=metadata)
    refusal = refused(server, content, headers=headers)
    assert refusal["code"] == "option_conflict"
    assert "'a' in " in refusal["message"]
    assert "'b' in " in refusal["message"]
    assert fake.requests == []


@pytest.mark.parametrize(
    ("header", "value"),
    [(THREAD, ""), (THREAD, "x" * 513), (HISTORY, "all"), (HISTORY, "")],
    ids=["empty", "long", "unknown", "no history"],
)
def test_invalid_option_header_is_refused(server, fake, user, header, value):
    refusal = refused(server, body(user, "hi"), headers={header: value})
    assert refusal["param"] == header
    assert f"the header {header}" in refusal["message"]
    assert fake.requests == []


def test_history_header_makes_the_request_the_conversation(server, fake, user):
    fake.reply("first")
    post(server, body(user, "a stored question"))
    fake.reply("second")
    post(server, body(user, "hi"), headers={HISTORY: "client"})
    assert prompt(fake.requests[-1])[1:] == [("user", "hi")]


def test_task_header_names_the_thread(http, user, settled):
    task = {"agent": "assistant", "prompt": "hi", "user": user}
    headers = {THREAD: "work", "Idempotency-Key": user}
    answer = http.post("/v1/tasks", json=task, headers=headers)
    assert answer.status_code == 201
    assert answer.json()["metadata"] == {"thread_id": "work"}
    headers[THREAD] = "other"
    assert error(http.post("/v1/tasks", json=task, headers=headers), 409)


def test_response_header_names_the_thread(client, fake, user):
    fake.reply("hello")
    headers = {THREAD: "work", "X-Coulisse-User": user}
    client.responses.create(model="assistant", input="hi", extra_headers=headers)
    assert threads(user) == ["work"]


@pytest.mark.usefixtures("database")
def test_token_history_reaches_the_caller(user):
    row, _ = api_tokens.create_token("test", user, history="client", by=ADA)
    assert from_token(row.verified(row.created_at)).history == "client"
    row, _ = api_tokens.create_token("test", user, by=ADA)
    assert from_token(row.verified(row.created_at)).history is None
