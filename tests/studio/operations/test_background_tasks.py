"""Tasks in the studio: list, detail, cancellation and retries."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from access.models import AuditEntry
from access.users.identity import derive_user_id
from studio.live import task_queue
from tasks.models import Task

pytestmark = pytest.mark.database

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def create_task(user):
    """Return a function that creates tasks of the test's user."""

    def create(state="queued", **more):
        is_closed = state in ("done", "errored", "cancelled")
        defaults = {
            "kind": "agent",
            "agent": "assistant",
            "prompt": "Write the report.",
            "origin": "api",
            # Due in a hundred years, so no worker claims it.
            "due_at": AT + timedelta(days=36_500),
            "created_at": AT,
            "finished_at": AT + timedelta(minutes=1) if is_closed else None,
        }
        return Task.objects.create(
            user_id=derive_user_id(user), state=state, **{**defaults, **more}
        )

    yield create
    Task.objects.filter(user_id=derive_user_id(user)).delete()


def test_tasks_are_filtered_by_state_agent_kind_and_user(script, create_task, user):
    queued = create_task()
    failed = create_task("errored", agent="claude", error="no luck")
    judged = create_task("done", kind="judge", created_at=AT + timedelta(seconds=1))

    def listed_ids(**query):
        response = script.get("/admin/tasks", params={"user": user, **query})
        return [task["id"] for task in response.json()["data"]]

    assert listed_ids()[0] == str(judged.pk)
    assert set(listed_ids()) == {str(task.pk) for task in (queued, failed, judged)}
    assert listed_ids(state="queued") == [str(queued.pk)]
    assert listed_ids(agent="claude") == [str(failed.pk)]
    assert listed_ids(kind="judge") == [str(judged.pk)]
    assert listed_ids(user=str(derive_user_id(user)), state="done") == [str(judged.pk)]


def test_task_pages_are_contiguous(script, create_task, user):
    created = [create_task(created_at=AT + timedelta(seconds=n)) for n in range(5)]
    after, seen = "", []
    for _ in range(3):
        params = {"user": user, "limit": 2, "after": after}
        page = script.get("/admin/tasks", params=params).json()
        seen += [task["id"] for task in page["data"]]
        after = page["last_id"]
    assert seen == [str(task.pk) for task in reversed(created)]
    assert not page["has_more"]


@pytest.mark.parametrize(
    "query", ["state=lost", "kind=none", "after=x", "limit=0", f"user={'x' * 3000}"]
)
def test_invalid_filter_is_refused(script, query):
    assert script.get(f"/admin/tasks?{query}").status_code == 400


def test_unfinished_task_page_reloads(browser, create_task):
    def page(task):
        return browser.get(f"/admin/tasks/{task.pk}").text

    ahead, due, done = (
        create_task(),
        create_task(due_at=AT),
        create_task("done", result="Here"),
    )
    assert "data-is-open" in page(ahead)
    assert "Starts " in page(ahead)
    assert "Waiting for a worker." in page(due)
    assert "data-is-open" not in page(done)
    assert ">Reload<" not in page(done)


def test_task_page_shows_all_details(script, browser, create_task, user):
    task = create_task(
        "errored", error="no <luck>", prompt="Say <b>hello</b>", attempts=2
    )
    data = script.get(f"/admin/tasks/{task.pk}").json()
    assert data["user_id"] == str(derive_user_id(user))
    assert (data["error"], data["attempts"]) == ("no <luck>", 2)
    page = browser.get(f"/admin/tasks/{task.pk}").text
    assert "Say &lt;b&gt;hello&lt;/b&gt;" in page
    assert "no &lt;luck&gt;" in page
    assert ">Retry<" in page


def test_unknown_task_is_404(script):
    for path in (uuid.uuid4(), "nonsense", f"{uuid.uuid4()}/cancel"):
        method = script.post if str(path).endswith("cancel") else script.get
        response = method(f"/admin/tasks/{path}")
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "task_not_found"


def test_task_is_cancelled_and_audited(script, browser, create_task):
    task = create_task()
    response = script.post(f"/admin/tasks/{task.pk}/cancel")
    assert response.json()["state"] == "cancelled"
    entry = AuditEntry.objects.get(action="task.cancel", target=str(task.pk))
    assert entry.actor == "studio: local"
    other = create_task()
    page = browser.submit(
        f"/admin/tasks/{other.pk}/cancel", {}, form_page=f"/admin/tasks/{other.pk}"
    )
    assert "Task cancelled" in page.text


def test_unknown_task_is_not_audited(script):
    task_id = uuid.uuid4()
    script.post(f"/admin/tasks/{task_id}/cancel")
    script.post(f"/admin/tasks/{task_id}/retry")
    assert not AuditEntry.objects.filter(target=str(task_id)).exists()


def test_failed_task_is_requeued(script, create_task):
    task = create_task("errored", error="no luck", failures=3)
    response = script.post(f"/admin/tasks/{task.pk}/retry")
    assert response.status_code == 202
    assert response.json()["id"] == str(task.pk)
    assert response.json()["state"] == "queued"
    assert AuditEntry.objects.filter(action="task.retry", target=str(task.pk)).exists()


def test_finished_task_is_run_again_as_a_copy(script, create_task):
    task = create_task(
        "done", result="The report.", payload={"metadata": {"thread_id": "t"}}
    )
    created = script.post(f"/admin/tasks/{task.pk}/retry").json()
    assert created["id"] != str(task.pk)
    assert (created["prompt"], created["state"]) == (task.prompt, "queued")
    assert created["metadata"] == {"thread_id": "t"}
    task.refresh_from_db()
    assert (task.state, task.result) == ("done", "The report.")


@pytest.mark.parametrize(
    ("state", "kind", "code"),
    [("queued", "agent", "task_not_ended"), ("done", "judge", "task_done")],
)
def test_some_tasks_cannot_be_retried(script, create_task, state, kind, code):
    response = script.post(f"/admin/tasks/{create_task(state, kind=kind).pk}/retry")
    assert response.status_code == 409
    assert response.json()["error"]["code"] == code


def test_viewers_are_read_only(viewer, create_task):
    task = create_task()
    for what in ("cancel", "again"):
        assert viewer.post(f"/admin/tasks/{task.pk}/{what}").status_code == 403
    assert viewer.get(f"/admin/tasks/{task.pk}").status_code == 200
    task.refresh_from_db()
    assert task.state == "queued"


def test_query_count_is_independent_of_tasks(script, create_task, user):
    def count(limit):
        with CaptureQueriesContext(connection) as seen:
            script.get("/admin/tasks", params={"user": user, "limit": limit})
        return len(seen)

    for _ in range(4):
        create_task(attempts=1)
    assert count(1) == count(4)


@pytest.mark.parametrize("search", ["id", "user"])
def test_tasks_are_found_by_id_and_user(script, create_task, user, search):
    task = create_task()
    text = {"id": str(task.pk)[:18], "user": user}[search]
    found = script.get("/admin/tasks", params={"q": text}).json()["data"]
    assert [each["id"] for each in found] == [str(task.pk)]


def test_extractions_are_listed_only_by_their_kind(script, create_task, user):
    task = create_task(kind="extraction")
    listed = script.get("/admin/tasks", params={"user": user}).json()["data"]
    assert listed == []
    params = {"user": user, "kind": "extraction"}
    (only,) = script.get("/admin/tasks", params=params).json()["data"]
    assert only["id"] == str(task.pk)


def test_chosen_tasks_are_cancelled_and_retried(script, create_task):
    queued, failed, done = create_task(), create_task("errored"), create_task("done")

    def run(name, *tasks):
        ids = [str(task.pk) for task in tasks]
        response = script.post(f"/admin/tasks?action={name}", json={"ids": ids})
        return [each["is_changed"] for each in response.json()["data"]]

    assert run("cancel", queued, done) == [True, False]
    assert run("retry", queued, failed) == [True, True]
    states = {task.pk: task.state for task in Task.objects.filter(prompt=queued.prompt)}
    assert (states[queued.pk], states[failed.pk]) == ("queued", "queued")
    assert AuditEntry.objects.filter(
        action="task.cancel", target=str(queued.pk)
    ).exists()
    assert not AuditEntry.objects.filter(target=str(done.pk)).exists()


@pytest.mark.parametrize(
    ("origin", "link"),
    [("trigger:a/../b", "/admin/triggers/a%2F..%2Fb"), ("smoke:x", "/admin/smoke/x")],
)
def test_origin_is_linked(browser, create_task, origin, link):
    task = create_task(origin=origin)
    assert f'href="{link}"' in browser.get(f"/admin/tasks/{task.pk}").text


# The queue snapshot of the live page.


@pytest.fixture
def no_other_tasks(create_task) -> Iterator[None]:
    """Nothing others left is in the queue."""
    with transaction.atomic():
        Task.objects.all().delete()
        yield
        transaction.set_rollback(True)


@pytest.mark.usefixtures("no_other_tasks")
def test_queue_shows_open_and_failed_tasks(create_task):
    queued = create_task(prompt="  Two\nlines ", priority=9)
    running = create_task("running", started_at=AT, priority=8)
    failed = create_task("errored", error="no luck")
    done = create_task("done", finished_at=AT + timedelta(minutes=2))
    data = task_queue.read_queue().model_dump(mode="json")
    assert [task["id"] for task in data["open"]] == [str(running.pk), str(queued.pk)]
    assert [task["id"] for task in data["ended"]] == [str(done.pk), str(failed.pk)]
    listed = {task["id"]: task for task in [*data["open"], *data["ended"]]}
    assert listed[str(queued.pk)]["prompt"] == "Two lines"
    assert listed[str(running.pk)]["since"] == "2026-11-21T12:00:00Z"
    assert listed[str(failed.pk)]["error"] == "no luck"
    assert data["counts"] == {"queued": 1, "running": 1}
    assert not data["has_more"]


@pytest.mark.usefixtures("no_other_tasks")
def test_long_queue_is_truncated(create_task, monkeypatch):
    monkeypatch.setattr(task_queue, "MAX_COUNTED", 3)
    monkeypatch.setattr(task_queue, "MAX_SHOWN", 2)
    for _ in range(4):
        create_task()
    with CaptureQueriesContext(connection) as seen:
        data = task_queue.read_queue().model_dump(mode="json")
    # One for each kind; the rows; those that ended.
    assert len(seen) in (7, 8)
    assert sum(data["counts"].values()) == 3
    assert data["has_more"]
    assert len(data["open"]) == 2
