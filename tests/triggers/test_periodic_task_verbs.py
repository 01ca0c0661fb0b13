"""Periodic agent tasks are paused, resumed and run; operators add their own."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ValidationError
from django_celery_beat.models import PeriodicTask

from core.ids import UserId
from tests.tasks.conftest import RunnerHarness
from tests.triggers.manual_beat import ManualBeat
from tests.triggers.trigger_yaml import (
    NOON,
    Configure,
    cron,
    runs,
    state,
    ticks,
    unique,
    yaml,
)
from triggers.errors import TriggerRunning
from triggers.models import PeriodicAgentTask

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("server")]


@pytest.fixture
def name() -> Iterator[str]:
    name = unique("periodic")
    yield name
    PeriodicAgentTask.objects.filter(name__startswith=name).delete()


def find(name: str) -> PeriodicAgentTask:
    return PeriodicAgentTask.objects.get(name=name)


def build(name: str, **fields: Any) -> PeriodicAgentTask:
    """Return an operator's task, unsaved."""
    defaults = {"agent": "assistant", "prompt": "Look after it."}
    return PeriodicAgentTask(name=name, **{**defaults, **fields})


def add(name: str, **fields: Any) -> PeriodicAgentTask:
    row = build(name, **fields)
    row.full_clean()
    row.save()
    return row


# Crons of the YAML.


def test_row_shows_the_definition_of_the_yaml(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "0 9 * * *", "time_zone: Europe/Lisbon, user: dora")))
    beat.check()
    row = find(name)
    assert (row.is_from_file, row.cron, row.time_zone) == (
        True,
        "0 9 * * *",
        "Europe/Lisbon",
    )
    assert (row.agent, row.prompt, row.user) == ("assistant", "It is time.", "dora")
    configure(yaml())
    beat.check(1)
    assert not PeriodicTask.objects.filter(name=name).exists()


def test_paused_cron_does_not_run_and_misses_nothing(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    find(name).pause()
    beat.check(60)
    beat.check(3600)
    find(name).resume()
    beat.check(3610)
    beat.check(3660)
    assert ticks(name) == ["2026-03-02T13:01:00Z"]
    assert state(name).missed == 0


def test_pause_outlives_restarts_and_edits(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    find(name).pause()
    configure(yaml(cron(name, "*/2 * * * *", "enabled: false")))
    beat.check(1)
    configure(yaml(cron(name, "*/2 * * * *")))
    beat.check(2)
    ManualBeat().check(120)
    ManualBeat().check(600)
    assert find(name).cron == "*/2 * * * *"
    assert find(name).is_paused
    assert runs(name) == []


def test_cron_of_the_yaml_cannot_be_edited(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    with pytest.raises(ValidationError, match="Edit it there, or pause it"):
        find(name).full_clean()


def test_run_now_adds_a_run(configure: Configure, name: str, beat: ManualBeat):
    configure(yaml(cron(name, "* * * * *", "skip_if_running: true")))
    beat.check()
    row = find(name)
    row.pause()
    run = row.run_now()
    assert [task.pk for task in runs(name)] == [run.task_id]
    with pytest.raises(TriggerRunning):
        row.run_now()


def test_edit_of_a_prompt_keeps_the_position(
    configure: Configure, name: str, beat: ManualBeat
):
    configure(yaml(cron(name, "* * * * *")))
    beat.check()
    read_before = find(name)
    beat.check(60)
    read_before.prompt = "Changed."
    read_before.save()
    beat.check(61)
    beat.check(120)
    assert len(ticks(name)) == 2
    assert state(name).repeated == 0


# Tasks of operators.


def test_task_of_an_operator_is_an_agent_task(
    name: str, beat: ManualBeat, task_runner: RunnerHarness, user_id: UserId
):
    beat.check()
    add(name, cron="*/30 * * * * *", user=str(user_id), thread="patrol")
    beat.check(1)
    beat.check(30)
    (task,) = runs(name)
    assert task.user_id == user_id
    assert task.payload["metadata"] == {"thread_id": "patrol"}
    task_runner.check_queue()
    ended = task_runner.wait_for_end(task)
    assert (ended.state, ended.error) == ("done", "")
    assert ended.turn_id


def test_interval_counts_from_its_start(name: str, beat: ManualBeat):
    beat.check()
    add(name, every_seconds=420, start_time=NOON, catch_up="true")
    beat.check(1)
    for seconds in (419, 420, 800, 5000):
        beat.check(seconds)
    assert ticks(name)[:2] == ["2026-03-02T12:07:00Z", "2026-03-02T12:14:00Z"]
    assert len(ticks(name)) == 11
    find(name).delete()
    beat.check(6000)
    assert len(ticks(name)) == 11


def test_disabled_task_of_an_operator_does_not_run(name: str, beat: ManualBeat):
    row = add(name, cron="* * * * *", enabled=False)
    beat.check()
    beat.check(60)
    row.enabled = True
    row.save()
    beat.check(61)
    beat.check(120)
    assert ticks(name) == ["2026-03-02T12:02:00Z"]


def test_edit_of_the_yaml_keeps_tasks_of_operators(
    configure: Configure, name: str, beat: ManualBeat
):
    add(name, cron="* * * * *")
    configure(yaml(cron(f"{name}-b", "* * * * *")))
    beat.check()
    configure(yaml())
    beat.check(1)
    beat.check(60)
    assert len(ticks(name)) == 1


def test_name_of_an_operators_task_is_kept_from_the_yaml(
    configure: Configure, name: str, beat: ManualBeat, caplog
):
    row = add(name, cron="* * * * *")
    configure(yaml(cron(name, "0 9 * * *")))
    beat.check()
    beat.check(60)
    assert [task.prompt for task in runs(name)] == [row.prompt]
    assert f"its name; rename one trigger={name}" in caplog.text


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({}, "__all__", "either a cron or an interval"),
        ({"cron": "* * *"}, "cron", "this has 3 fields"),
        ({"cron": "0 0 30 2 *"}, "cron", "No year has a day"),
        ({"cron": "* * * * *", "time_zone": "Mars"}, "time_zone", "time zone such as"),
        ({"cron": "* * * * *", "agent": "nobody"}, "agent", "no agent 'nobody'"),
        ({"cron": "* * * * *", "prompt": "a\0b"}, "prompt", "NUL"),
        (
            {"cron": "* * * * *", "name": next(iter(settings.CELERY_BEAT_SCHEDULE))},
            "name",
            "taken",
        ),
        ({"cron": "* * * * *", "name": "in-the-yaml"}, "name", "taken"),
    ],
    ids=[
        "no schedule",
        "wrong cron",
        "impossible cron",
        "time zone",
        "agent",
        "prompt",
        "job",
        "trigger",
    ],
)
def test_wrong_entries_are_refused(
    configure: Configure, name: str, fields: dict[str, Any], field: str, message: str
):
    configure(yaml(cron("in-the-yaml", "* * * * *")))
    with pytest.raises(ValidationError) as refused:
        build(**{"name": name, **fields}).full_clean()
    assert message in " ".join(refused.value.message_dict[field])


def test_position_of_an_interval_after_a_pause(name: str, beat: ManualBeat):
    row = add(name, every_seconds=3600, start_time=NOON)
    beat.check()
    beat.check(since=NOON + timedelta(hours=5, minutes=10))
    assert (ticks(name), state(name).missed) == ([], 5)
    row.refresh_from_db()
    assert row.total_run_count == 0
