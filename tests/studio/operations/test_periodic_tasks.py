"""The pages of periodic tasks: crons are paused there, operators add their own."""

from collections.abc import Iterator

import pytest

from access.models import AuditEntry
from config import live
from tests.triggers.trigger_yaml import cron, runs, unique, yaml
from triggers.models import PeriodicAgentTask

pytestmark = pytest.mark.database

PATH = "/admin/periodic-tasks"


@pytest.fixture
def name(server, configure) -> Iterator[str]:
    """The name of a cron of the YAML."""
    name = unique("nightly")
    configure(yaml(cron(name, "0 3 * * *", "time_zone: Europe/Lisbon")))
    PeriodicAgentTask.objects.follow_file(live.current())
    yield name
    PeriodicAgentTask.objects.filter(name__startswith=name).delete()


def address(name: str) -> str:
    return f"{PATH}/{PeriodicAgentTask.objects.get(name=name).pk}"


def audited(name: str) -> list[str]:
    """Return the audited actions on a task, oldest first."""
    targets = [name, address(name).split("/")[-1]]
    entries = AuditEntry.objects.filter(
        target__in=targets, action__startswith="periodic_task."
    )
    return [entry.action.split(".")[1] for entry in entries.order_by("pk")]


def test_cron_of_the_yaml_is_listed_and_paused(name, script, browser):
    (row,) = script.get(f"{PATH}?q={name}").json()["data"]
    assert row["source"] == "file"
    assert row["schedule"] == "0 3 * * * Europe/Lisbon"
    one = address(name)
    assert script.post(f"{one}/pause").json()["state"] == "paused"
    assert "paused" in browser.get(f"{PATH}?q={name}").text
    page = browser.submit(f"{one}/resume", {}, form_page=one)
    assert page.url.path == one
    assert script.get(one).json()["state"] == "active"
    assert audited(name) == ["pause", "resume"]


def test_cron_of_the_yaml_is_read_only(name, script, browser):
    one = address(name)
    page = browser.get(one).text
    assert 'name="prompt"' not in page
    assert "It is time." in page
    refused = script.patch(one, json={"prompt": "Other."})
    assert refused.status_code == 403
    assert browser.get(f"{one}/delete").status_code == 403
    assert PeriodicAgentTask.objects.get(name=name).prompt == "It is time."


def test_operator_adds_changes_and_deletes_a_task(name, browser, script):
    mine = f"{name}-mine"
    fields = {
        "name": mine,
        "agent": "assistant",
        "prompt": "Sum up.",
        "user": "dora",
        "cron": "0 9 * * 1-5",
        "time_zone": "UTC",
        "catch_up": "false",
        "enabled": "on",
    }
    browser.submit(f"{PATH}/add", fields, form_page=f"{PATH}/add")
    row = PeriodicAgentTask.objects.get(name=mine)
    assert (row.source, row.user, row.state) == ("operator", "dora", "active")
    one = address(mine)
    assert 'name="prompt"' in browser.get(one).text
    changed = script.patch(one, json={"cron": "", "every_seconds": 90})
    assert changed.json()["every_seconds"] == 90
    done = script.post(f"{one}/run").json()
    assert done["name"] == mine
    assert [run.prompt for run in runs(mine)] == ["Sum up."]
    assert audited(mine) == ["create", "change", "run"]
    browser.submit(f"{one}/delete", {"post": "yes"}, form_page=f"{one}/delete")
    assert not PeriodicAgentTask.objects.filter(name=mine).exists()


def test_wrong_entries_are_refused_at_their_field(name, script, browser):
    fields = {"name": f"{name}-x", "agent": "assistant", "prompt": "x"}
    fields |= {"time_zone": "UTC", "catch_up": "false"}
    for more, param in (
        ({"cron": "* *"}, "cron"),
        ({"cron": "* * * * *", "agent": "nobody"}, "agent"),
        ({"cron": "* * * * *", "name": name}, "name"),
        ({}, "__all__"),
    ):
        refused = script.post(PATH, json={**fields, **more})
        assert refused.status_code == 400, refused.text
        assert refused.json()["error"]["param"] == param
    form = {**fields, "cron": "* *"}
    page = browser.submit(f"{PATH}/add", form, form_page=f"{PATH}/add")
    assert "this has 2 fields" in page.text


def test_viewers_cannot_change_periodic_tasks(name, viewer):
    one = address(name)
    assert viewer.get(one).status_code == 200
    for action in ("pause", "resume", "run"):
        assert viewer.post(f"{one}/{action}").status_code == 403
    assert viewer.post(PATH, json={}).status_code == 403


def test_maintenance_jobs_are_listed_apart(name, script, browser):
    assert name not in browser.get("/admin/maintenance-jobs").text
    assert script.get("/admin/maintenance-jobs").status_code == 200
