"""Triggers in the studio: their schedules, their runs, and manual runs."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.models import AuditEntry
from config import live
from database import repeated_queries
from studio.operations import trigger_views as trigger_views
from tasks.models import Task
from tests.triggers.trigger_yaml import boot, cron, hook, runs, unique, yaml
from triggers import trigger_list
from triggers.config import TRIGGERS
from triggers.models import PeriodicAgentTask, TriggerState

pytestmark = pytest.mark.database

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
CONFIG_WITH_SECRET = "secret: a-secret-of-the-hook"


@pytest.fixture
def trigger_names(server, configure):
    """The names of a cron, a webhook and a boot trigger."""
    created = [unique(name) for name in ("daily", "hook", "boot")]
    configure(
        yaml(
            cron(created[0], "0 9 * * *"),
            hook(created[1], f"/hooks/{created[1]}", CONFIG_WITH_SECRET),
            boot(created[2]) + ", enabled: false",
        )
    )
    yield created
    Task.objects.filter(origin__in=[f"trigger:{name}" for name in created]).delete()


def create_run(name, number, state="done", **more):
    at = AT + timedelta(minutes=number)
    return Task.objects.create(
        kind="agent",
        user_id="00000000-0000-0000-0000-000000000001",
        agent="assistant",
        origin=f"trigger:{name}",
        state=state,
        created_at=at,
        due_at=at + timedelta(days=36_500),
        **more,
    )


def test_triggers_are_listed_in_yaml_order_without_secrets(trigger_names, script):
    response = script.get("/admin/triggers")
    data = response.json()["data"]
    assert [trigger["name"] for trigger in data] == trigger_names
    assert data[0]["next_at"].endswith("T09:00:00Z")
    assert (data[1]["has_secret"], data[2]["enabled"]) == (True, False)
    assert "a-secret-of-the-hook" not in response.text


def test_newest_runs_are_listed(trigger_names, script, monkeypatch):
    monkeypatch.setattr(trigger_views, "LIST_RUNS_SHOWN", 2)
    TriggerState.objects.create(
        name=trigger_names[0], run_count=3, missed=1, last_run_at=AT
    )
    first, second, third = (
        create_run(trigger_names[0], number, "errored", error="no luck")
        for number in range(3)
    )
    other = create_run(trigger_names[1], 9)
    daily, hooked, _ = script.get("/admin/triggers").json()["data"]
    assert [run["id"] for run in daily["last_runs"]] == [str(third.pk), str(second.pk)]
    assert daily["last_runs"][0]["error"] == "no luck"
    assert (daily["run_count"], daily["missed"]) == (3, 1)
    assert [run["id"] for run in hooked["last_runs"]] == [str(other.pk)]
    one = script.get(f"/admin/triggers/{trigger_names[0]}").json()
    assert [run["id"] for run in one["last_runs"]][-1] == str(first.pk)


def test_query_count_is_independent_of_triggers(trigger_names):
    def count():
        with CaptureQueriesContext(connection) as seen:
            trigger_list.list_newest_runs(live.current().get(TRIGGERS), 10)
        return len(seen)

    create_run(trigger_names[0], 0)
    few = count()
    for name in trigger_names:
        for number in range(12):
            create_run(name, number)
    assert count() == few == 4


def test_recent_runs_are_loaded_in_batches(trigger_names, monkeypatch):
    monkeypatch.setattr(repeated_queries, "QUERIES_PER_STATEMENT", 2)
    created = [create_run(name, 1) for name in trigger_names]
    newest = trigger_list.list_newest_runs(live.current().get(TRIGGERS), 5)
    assert [trigger.last_runs[0].id for trigger in newest] == [
        run.pk for run in created
    ]


def test_runs_are_listed_by_trigger_state_and_time(trigger_names, script, browser):
    first = create_run(trigger_names[0], 1, "errored", error="no luck")
    second = create_run(trigger_names[0], 2)
    create_run(trigger_names[1], 3)

    def listed_ids(**query):
        params = {"trigger": trigger_names[0], **query}
        response = script.get("/admin/trigger-runs", params=params)
        return [run["id"] for run in response.json()["data"]]

    assert listed_ids() == [str(second.pk), str(first.pk)]
    assert listed_ids(state="errored") == [str(first.pk)]
    assert listed_ids(to="2026-11-21T12:01:30Z") == [str(first.pk)]
    page = browser.get(f"/admin/trigger-runs?trigger={trigger_names[0]}").text
    assert "no luck" in page
    link = f'href="/admin/trigger-runs?trigger={trigger_names[0]}"'
    assert link in browser.get(f"/admin/triggers/{trigger_names[0]}").text


def test_only_tasks_of_triggers_are_listed_and_retried(trigger_names, script):
    run = create_run(trigger_names[0], 1, "errored", failures=1)
    other = create_run(trigger_names[0], 2, "errored")
    Task.objects.filter(pk=other.pk).update(origin="api")
    body = {"ids": [str(run.pk), str(other.pk)]}
    results = script.post("/admin/trigger-runs?action=retry", json=body).json()["data"]
    assert [each["is_changed"] for each in results] == [True, False]
    assert script.get(f"/admin/trigger-runs/{other.pk}").status_code == 404
    run.refresh_from_db()
    assert run.state == "queued"
    assert AuditEntry.objects.filter(action="task.retry", target=str(run.pk)).exists()
    other.delete()


def test_trigger_page_shows_prompt_and_next_times(trigger_names, script, browser):
    data = script.get(f"/admin/triggers/{trigger_names[0]}").json()
    assert data["prompt"] == "It is time."
    assert len(data["next_times"]) == trigger_views.NEXT_TIMES_SHOWN
    for path in ("", *(f"/{name}" for name in trigger_names)):
        assert browser.get(f"/admin/triggers{path}").status_code == 200
    assert script.get("/admin/triggers/none").status_code == 404


def test_trigger_page_shows_the_user_of_the_trigger(configure, browser):
    names = [unique("of-nobody"), unique("of-dora")]
    configure(
        yaml(
            *(
                cron(name, "0 9 * * *", more)
                for name, more in zip(names, ("", "user: dora"), strict=True)
            )
        )
    )
    default, own = (browser.get(f"/admin/triggers/{name}").text for name in names)
    assert "<dt>User</dt>" not in default
    assert "<dt>User</dt><dd>dora</dd>" in own


def test_paused_cron_is_shown(trigger_names, script, browser):
    PeriodicAgentTask.objects.follow_file(live.current())
    PeriodicAgentTask.objects.get(name=trigger_names[0]).pause()
    one = script.get(f"/admin/triggers/{trigger_names[0]}").json()
    assert (one["paused"], one["next_at"], one["next_times"]) == (True, None, [])
    listed = script.get("/admin/triggers").json()["data"]
    assert [trigger["paused"] for trigger in listed] == [True, False, False]
    for path in ("", f"/{trigger_names[0]}"):
        assert ">paused</span>" in browser.get(f"/admin/triggers{path}").text


def test_manual_run_is_audited(trigger_names, script):
    data = script.post(f"/admin/triggers/{trigger_names[0]}/run").json()
    (run,) = runs(trigger_names[0])
    assert data["task_id"] == str(run.pk)
    entry = AuditEntry.objects.get(action="trigger.run", target=trigger_names[0])
    assert (entry.actor, entry.details) == ("studio: local", {"task": str(run.pk)})


def test_webhook_runs_with_a_manual_payload(trigger_names, script, browser):
    path = f"/admin/triggers/{trigger_names[1]}"
    script.post(f"{path}/run", json={"say": "hello"})
    browser.submit(f"{path}/run", {"yaml": "say: good bye"}, form_page=path)
    prompts = [run.prompt for run in runs(trigger_names[1])]
    assert prompts == ["They say hello.", "They say good bye."]


def test_disabled_trigger_runs_manually_and_redirects_to_its_task(
    trigger_names, browser
):
    path = f"/admin/triggers/{trigger_names[2]}"
    page = browser.submit(f"{path}/run", {}, form_page=path)
    (run,) = runs(trigger_names[2])
    assert page.url.path == f"/admin/tasks/{run.pk}"
    assert f"Trigger &#x27;{trigger_names[2]}&#x27; started" in page.text


def test_skipped_run_is_reported(script, configure):
    name = unique("slow")
    configure(yaml(cron(name, "0 9 * * *", "skip_if_running: true")))
    create_run(name, 1, "queued")
    response = script.post(f"/admin/triggers/{name}/run")
    assert response.status_code == 409
    assert response.json()["error"]["code"] == "trigger_running"
    Task.objects.filter(origin=f"trigger:{name}").delete()


def test_viewers_cannot_run_triggers(viewer):
    assert viewer.get("/admin/triggers").status_code == 200
    assert viewer.post("/admin/triggers/any/run").status_code == 403
    page = viewer.get("/admin/triggers", headers={"Accept": "text/html"}).text
    assert "Operators can add cron" in page
    assert 'is-primary" href' not in page
