"""`coulisse triggers`: lists triggers and their results, and runs one manually."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from access.models import AuditEntry
from config import live
from core.ids import UserId
from tasks.models import CLOSED, OPEN, Task
from tests.tasks.conftest import RunnerHarness
from tests.triggers.manual_beat import ManualBeat
from tests.triggers.trigger_yaml import (
    NOON,
    Configure,
    boot,
    cron,
    hook,
    runs,
    unique,
    yaml,
)
from triggers.config import TRIGGERS
from triggers.models import TriggerState
from triggers.runs import trigger_runs

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("server")]


@pytest.fixture
def name() -> str:
    return unique("listed")


def run(*arguments: str) -> str:
    """Run the command with the current YAML; return its output."""
    out = StringIO()
    path = live.current().path
    call_command("triggers", *arguments, "-c", str(path), stdout=out)
    return out.getvalue()


def test_list_shows_triggers_and_their_runs(
    configure: Configure, name: str, beat: ManualBeat
):
    secret = "secret: long-enough"
    configure(
        yaml(
            cron(
                name, "*/10 * * * *", "time_zone: Europe/Lisbon, skip_if_running: yes"
            ),
            hook(f"{name}-b", "/hooks/b"),
            hook(f"{name}-c", "/hooks/c", f"{secret}, enabled: no"),
        )
    )
    beat.check(since=NOON - timedelta(hours=1))
    beat.check()
    beat.check(600)
    Task.objects.filter(origin=f"trigger:{name}").update(state="errored")
    beat.check(1200)

    lines = run().splitlines()

    assert lines[0] == f"{name}  cron  */10 * * * * Europe/Lisbon  agent assistant"
    assert (
        "  last 2026-03-02 12:20:00  runs 2  queued 1  errored 1  skipped 1" in lines[1]
    )
    assert lines[1].startswith("    next 20")
    assert lines[1].endswith("missed 5, last 2026-03-02 11:50:00")
    assert lines[2:] == [
        f"{name}-b  webhook  /hooks/b  no secret  agent assistant",
        "    never run  runs 0",
        f"{name}-c  webhook  /hooks/c  agent assistant  (off)",
        "    never run  runs 0",
    ]

    listed = json.loads(run("--json"))
    assert listed[0]["runs"]["errored"] == 1
    assert (listed[0]["missed"], listed[0]["name"]) == (5, name)
    assert "long-enough" not in json.dumps(listed)


def test_list_takes_three_queries(
    configure: Configure, name: str, django_assert_num_queries
):
    configure(yaml(*(cron(f"{name}-{n}", "0 9 * * *") for n in range(9))))
    with django_assert_num_queries(3):
        run()


def test_empty_list_says_so():
    assert run() == "there are no triggers in the YAML\n"


def test_disabled_trigger_runs_manually(configure: Configure, name: str):
    configure(yaml(cron(name, "0 9 * * *", "enabled: no")))
    task_id = run("run", name).strip()
    (task,) = runs(name)
    assert str(task.pk) == task_id
    entry = AuditEntry.objects.get(action="trigger.run", target=name)
    assert entry.details["task"] == task_id


def test_webhook_runs_with_a_manual_payload(configure: Configure, name: str):
    configure(yaml(hook(name, "/hooks/d")))
    run("run", name, "--payload", '{"say": "hi"}')
    assert runs(name)[0].prompt == "They say hi."
    with pytest.raises(CommandError, match="--payload is not JSON"):
        run("run", name, "--payload", "hi")


def test_unknown_or_running_trigger_is_refused(configure: Configure, name: str):
    configure(yaml(cron(name, "0 9 * * *", "skip_if_running: yes")))
    with pytest.raises(CommandError, match=f"did you mean '{name}'"):
        run("run", f"{name}x")
    run("run", name)
    with pytest.raises(CommandError, match="a run of trigger"):
        run("run", name)


# Runs of triggers.


def test_trigger_run_is_an_agent_turn(
    configure: Configure, name: str, task_runner: RunnerHarness, user_id: UserId
):
    configure(yaml(boot(name) + f", user: {user_id}"))
    run("run", name)
    task_runner.check_queue()
    task = task_runner.wait_for_end(runs(name)[0])
    assert (task.state, task.error) == ("done", "")
    assert task.turn_id


def test_unknown_agent_from_a_payload_is_an_error(
    configure: Configure, name: str, task_runner: RunnerHarness, user_id: UserId
):
    configure(yaml(hook(name, "/hooks/e", f"agent: '{{{{to}}}}', user: {user_id}")))
    run("run", name, "--payload", '{"to": "nobody"}')
    task_runner.check_queue()
    task = task_runner.wait_for_end(runs(name)[0])
    assert task.state == "errored"
    assert "'nobody'" in task.error


def test_trigger_run_uses_the_task_retries(configure: Configure, name: str):
    configure(yaml(boot(name), more="tasks: {retries: 2}"))
    run("run", name)
    assert runs(name)[0].max_failures == 3


def test_run_waiting_for_a_retry_counts_as_running(configure: Configure, name: str):
    configure(yaml(boot(name) + ", skip_if_running: yes"))
    (trigger,) = live.current().get(TRIGGERS)
    started = TriggerState.objects.run(
        trigger_runs.build_event(live.current(), trigger)
    )
    for state in OPEN:
        Task.objects.filter(pk=started.task_id).update(state=state)
        assert trigger_runs.is_running(name)
    for state in CLOSED:
        Task.objects.filter(pk=started.task_id).update(state=state)
        assert not trigger_runs.is_running(name)
