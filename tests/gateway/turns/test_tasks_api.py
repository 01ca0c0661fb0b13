"""`/v1/tasks`: users create background tasks and see their own."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.tokens import api_tokens
from access.users import identity
from tasks import user_tasks
from tasks.models import Task
from tasks.models import Task as Row
from tasks.queue.task_spec import TaskSpec
from tasks.schemas import TaskList, TaskObject
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.docs.pages import CODE, names_in_table, table_rows
from tests.gateway.calls import bearer, error
from tests.gateway.memory.test_api_docs import default_of, field_names
from tests.gateway.memory_client import MemoryClient, ok
from tests.tasks.conftest import RunnerHarness, task_runner  # noqa: F401
from turns.schemas import NewTask, TasksQuery

pytestmark = pytest.mark.database

TASKS = "/v1/tasks"
WISH = {"agent": "assistant", "prompt": "Find out."}


def create(memory_client: MemoryClient, status: int = 201, /, **more: Any) -> Any:
    return ok(memory_client.send("POST", TASKS, {**WISH, **more}), status)


def with_key(memory_client: MemoryClient, key: str, /, **more: Any) -> httpx2.Response:
    return memory_client.client.post(
        TASKS,
        params={"safety_identifier": memory_client.user},
        json={**WISH, **more},
        headers={"Idempotency-Key": key},
    )


def refused(memory_client: MemoryClient, status: int = 400, /, **body: Any) -> Any:
    return memory_client.refused("POST", TASKS, status, body={**WISH, **body})


@pytest.fixture
def user_id(memory_client: MemoryClient):
    return identity.derive_user_id(memory_client.user)


# Creation.


def test_task_is_accepted_and_completed(
    memory_client,
    user_id,
    fake,
    task_runner: RunnerHarness,  # noqa: F811
):
    fake.reply("Found.")
    task = create(
        memory_client, metadata={"thread_id": "search"}, priority=5, retries=2
    )
    TaskObject.model_validate(task)
    assert (task["object"], task["origin"]) == ("task", "api")
    assert task["state"] in ("queued", "running")  # A worker may be that fast.
    assert (task["priority"], task["retries"]) == (5, 2)
    assert task["attempts"] == (task["state"] == "running")
    assert (task["result"], task["cost_usd"], task["turn_id"]) == (None, None, None)
    task_runner.check_queue()
    task_runner.wait_for_end(Row.objects.get(pk=task["id"]))
    done = memory_client.get(f"{TASKS}/{task['id']}")
    assert (done["state"], done["result"], done["error"]) == ("done", "Found.", None)
    assert (done["attempts"], done["due_at"]) == (1, None)
    assert uuid.UUID(done["turn_id"])
    assert done["started_at"] <= done["finished_at"]
    assert done["metadata"] == {"thread_id": "search"}


def test_task_cost_sums_all_attempts(
    memory_client,
    fake,
    configure,
    monkeypatch,
    task_runner,  # noqa: F811
):
    configure(
        CONFIG + "\nprices: {openai: {gpt-test: {input: 100000, output: 100000}}}\n"
    )
    monkeypatch.setattr("tasks.queue.task_kinds.MIN_BACKOFF_SECONDS", 0.0)
    fake.cut("mid_stream", "Fou")
    task = create(memory_client, retries=1)
    task_runner.check_queue()
    task_runner.wait_for_end(Row.objects.get(pk=task["id"]))
    result = memory_client.get(f"{TASKS}/{task['id']}")
    assert result["attempts"] == 2
    assert result["cost_usd"] > 1.0


def test_task_may_be_delayed(memory_client):
    task = create(memory_client, delay_seconds=3_600)
    assert task["due_at"] > task["created_at"]
    row = Row.objects.get(pk=task["id"])
    assert (row.due_at - row.created_at).total_seconds() == 3_600


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"agent": "nobody"}, 404, "agent"),
        ({"agent": ""}, 400, "agent"),
        ({"prompt": "  "}, 400, "prompt"),
        ({"prompt": "a\0"}, 400, "prompt"),
        ({"prompt": "x" * 200_001}, 400, "prompt"),
        ({"prompt": None}, 400, "prompt"),
        ({"priority": 101}, 400, "priority"),
        ({"priority": "1"}, 400, "priority"),
        ({"retries": -1}, 400, "retries"),
        ({"retries": 11}, 400, "retries"),
        ({"delay_seconds": -1}, 400, "delay_seconds"),
        ({"metadata": {"memory": "incognito"}}, 400, "metadata.memory"),
        ({"metadata": {"thread_id": ""}}, 400, "metadata.thread_id"),
        ({"metadata": {"mine": "a\0"}}, 400, "metadata"),
        ({"metadata": {"a": 1}}, 400, "metadata.a"),
        ({"model": "assistant"}, 400, "model"),
    ],
)
def test_invalid_task_is_refused(memory_client, body, status, param):
    assert refused(memory_client, status, **body)["param"] == param
    assert memory_client.get(TASKS)["data"] == []


def test_unknown_agent_is_model_not_found(memory_client):
    complaint = refused(memory_client, 404, agent="asistant")
    assert complaint["code"] == "model_not_found"
    assert "assistant" in complaint["message"]


def test_disabled_tasks_are_refused(memory_client, configure):
    configure(CONFIG + "\ntasks: {enabled: false}\n")
    assert refused(memory_client, 403)["code"] == "tasks_disabled"
    assert memory_client.get(TASKS)["data"] == []


def test_open_task_limit_applies(memory_client, other_client, configure):
    configure(CONFIG + "\ntasks: {max_open: 2}\n")
    first = create(memory_client)
    create(memory_client)
    assert refused(memory_client, 429)["code"] == "too_many_tasks"
    create(other_client)
    ok(memory_client.send("POST", f"{TASKS}/{first['id']}/cancel"))
    create(memory_client)


# Idempotency.


def test_repeated_idempotency_key_returns_the_same_task(memory_client, other_client):
    first = ok(with_key(memory_client, "order-1"), 201)
    assert ok(with_key(memory_client, "order-1"), 200)["id"] == first["id"]
    assert ok(with_key(memory_client, "order-2"), 201)["id"] != first["id"]
    assert ok(with_key(other_client, "order-1"), 201)["id"] != first["id"]


def test_idempotency_key_is_bound_to_one_request(memory_client):
    ok(with_key(memory_client, "order-1"), 201)
    answer = with_key(memory_client, "order-1", prompt="Something else.")
    assert error(answer, 409)["code"] == "idempotency_key_reused"
    assert answer.headers["X-Should-Retry"] == "false"


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_invalid_idempotency_key_is_refused(memory_client, key):
    assert error(with_key(memory_client, key), 400)["param"] == "Idempotency-Key"


def test_parallel_requests_with_one_key_create_one_task(memory_client):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: with_key(memory_client, "order-1"), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1


# The list.


def test_list_is_ordered_newest_first(memory_client, other_client):
    first, second = create(memory_client), create(memory_client, prompt="p" * 600)
    create(other_client)
    result = memory_client.get(TASKS)
    TaskList.model_validate(result)
    assert [task["id"] for task in result["data"]] == [second["id"], first["id"]]
    assert (result["first_id"], result["last_id"]) == (second["id"], first["id"])
    assert result["data"][0]["prompt"] == "p" * 499 + "…"


def test_list_takes_two_queries(memory_client, user_id):
    for _ in range(3):
        create(memory_client)
    with CaptureQueriesContext(connection) as queries:
        result = user_tasks.list_tasks(user_id, limit=2).data
    assert (len(result), len(queries)) == (2, 1)
    Row.objects.filter(user_id=user_id).update(attempts=2)
    with CaptureQueriesContext(connection) as queries:
        user_tasks.list_tasks(user_id)
    assert len(queries) == 2


def test_list_pages_are_contiguous(memory_client):
    created = [create(memory_client)["id"] for _ in range(5)]
    seen, after, has_more = [], None, True
    while has_more:
        page = memory_client.get(TASKS, limit=2, after=after)
        seen += [task["id"] for task in page["data"]]
        after, has_more = page["last_id"], page["has_more"]
    assert seen == created[::-1]


def test_list_pages_are_contiguous_for_equal_times(memory_client, user_id):
    created = {create(memory_client)["id"] for _ in range(4)}
    Row.objects.filter(user_id=user_id).update(created_at="2026-03-01T12:00:00Z")
    first = memory_client.get(TASKS, limit=2)
    second = memory_client.get(TASKS, limit=2, after=first["last_id"])
    assert {task["id"] for task in first["data"] + second["data"]} == created


def test_list_can_be_filtered(memory_client):
    create(memory_client)
    tuned = create(memory_client, agent="tuned")
    cancelled = create(memory_client)
    ok(memory_client.send("POST", f"{TASKS}/{cancelled['id']}/cancel"))
    for requested, expected in (
        ({"agent": "tuned"}, tuned),
        ({"state": "cancelled"}, cancelled),
    ):
        [result] = memory_client.get(TASKS, **requested)["data"]
        assert result["id"] == expected["id"]
    assert memory_client.get(TASKS, state="done")["data"] == []


@pytest.mark.parametrize(
    ("requested", "param"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"state": "fine"}, "state"),
        ({"after": "x"}, "after"),
        ({"after": str(uuid.uuid4())}, "after"),
        ({"status": "x"}, "status"),
    ],
)
def test_invalid_list_parameter_is_refused(memory_client, requested, param):
    assert memory_client.refused("GET", TASKS, **requested)["param"] == param


# A single task.


def test_task_of_another_user_is_answered_as_unknown(memory_client, other_client):
    task = create(memory_client)
    for method, path in (("GET", ""), ("POST", "/cancel")):
        address = f"{TASKS}/{task['id']}{path}"
        message = other_client.refused(method, address, 404)
        unknown = f"{TASKS}/{uuid.uuid4()}{path}"
        assert message == memory_client.refused(method, unknown, 404)
        assert message["code"] == "task_not_found"
    assert memory_client.get(f"{TASKS}/{task['id']}")["state"] == "queued"
    after = other_client.refused("GET", TASKS, after=task["id"])
    assert after["param"] == "after"


def test_internal_tasks_are_hidden_from_users(memory_client, user_id):
    (judging,) = Task.objects.enqueue([TaskSpec("judge", user_id, "assistant")])
    assert memory_client.get(TASKS)["data"] == []
    memory_client.refused("GET", f"{TASKS}/{judging.pk}", 404)
    memory_client.refused("POST", f"{TASKS}/{judging.pk}/cancel", 404)
    judging.refresh_from_db()
    assert judging.state == "queued"


@pytest.mark.parametrize("name", ["x", "0" * 33, "%01"])
def test_invalid_task_id_is_404(memory_client, name):
    assert (
        memory_client.refused("GET", f"{TASKS}/{name}", 404)["code"] == "task_not_found"
    )


def test_queued_task_is_cancelled_at_once(memory_client):
    task = create(memory_client)
    for _ in range(2):
        result = ok(memory_client.send("POST", f"{TASKS}/{task['id']}/cancel"))
        assert (result["state"], result["cancel_requested"]) == ("cancelled", True)
        assert result["finished_at"]


# Authentication.


def test_token_determines_user_and_agents_of_tasks(http, user, configure, database):
    configure(CONFIG + "\nauth: {proxy: {tokens: {}}}\n")
    row, secret = api_tokens.create_token("ci", user, agents=["assistant"], by=ADA)
    headers = bearer(secret)
    assert http.post(TASKS, json=WISH).status_code == 401
    task = ok(http.post(TASKS, json=WISH, headers=headers), 201)
    created = Row.objects.get(pk=task["id"])
    assert (created.user_id, created.token_id) == (
        identity.derive_user_id(user),
        row.pk,
    )
    other = http.post(TASKS, json={**WISH, "agent": "tuned"}, headers=headers)
    assert error(other, 404)["code"] == "model_not_found"
    as_another = http.post(
        TASKS, json={**WISH, "safety_identifier": "eve"}, headers=headers
    )
    assert error(as_another, 403)["code"] == "identity_mismatch"


# The documentation.


@pytest.mark.parametrize(
    ("heading", "shape"),
    [
        ("parameter of the list of tasks", TasksQuery),
        ("field of a new task", NewTask),
    ],
)
def test_request_fields_are_documented(heading, shape):
    assert names_in_table("tasks.md", heading) == field_names(shape)
    for first, default, *_ in table_rows("tasks.md", heading):
        for name in CODE.findall(first):
            field = shape.model_fields[name]
            assert default.split("`")[1:2] == default_of(field).split("`")[1:2], name


def test_task_fields_are_documented():
    assert (
        names_in_table("tasks.md", "field of a task") == TaskObject.model_fields.keys()
    )


def test_openapi_describes_tasks(memory_client):
    described = memory_client.client.get("/v1/openapi.json").json()
    listing = described["paths"]["/v1/tasks"]["get"]
    assert {parameter["name"] for parameter in listing["parameters"]} == {
        *field_names(TasksQuery),
        "X-Coulisse-User",
    }
    posting = described["paths"]["/v1/tasks"]["post"]
    assert "Idempotency-Key" in {each["name"] for each in posting["parameters"]}
    assert {
        "/v1/tasks/{task_id}",
        "/v1/tasks/{task_id}/cancel",
    } <= described["paths"].keys()
