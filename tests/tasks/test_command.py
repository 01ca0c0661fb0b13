"""`coulisse tasks`: lists, shows, cancels, retries and counts tasks."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from access.models import AuditEntry
from core.ids import UserId
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


def run(*arguments: str, remark: str = "") -> str:
    output, remarks = StringIO(), StringIO()
    call_command("tasks", *arguments, stdout=output, stderr=remarks)
    assert remarks.getvalue().strip() == remark
    return output.getvalue()


def add_task(user_id: UserId, state: str = "queued", /, **fields) -> Task:
    (task,) = Task.objects.enqueue(
        [TaskSpec("agent", user_id, "assistant", "Find  out.\nNow.")]
    )
    if state != "queued":
        fields |= {"finished_at": task.created_at}
    Task.objects.filter(pk=task.pk).update(state=state, **fields)
    return task


def test_tasks_are_listed_newest_first(user, user_id):
    first, second = add_task(user_id), add_task(user_id, "errored", error="It broke.")
    lines = run("list", "--user", user).splitlines()
    assert [line.split()[0] for line in lines] == [str(second.pk), str(first.pk)]
    assert lines[0].endswith("errored    agent   assistant  It broke.")
    assert lines[1].endswith("queued     agent   assistant  Find out. Now.")
    run("list", "--user", user, "--state", "done", remark="no matching tasks")
    more = "there are more tasks; raise --limit to list them"
    assert str(second.pk) in run("list", "--user", user, "--limit", "1", remark=more)


def test_internal_tasks_are_listed(user, user_id):
    Task.objects.enqueue([TaskSpec("judge", user_id, "assistant")])
    [line] = run("list", "--user", user, "--kind", "judge").splitlines()
    assert "judge" in line
    output = json.loads(run("list", "--user", user, "--json"))
    assert [task["kind"] for task in output] == ["judge"]


def test_show_prints_the_whole_task(user_id):
    task = add_task(user_id, "done", result="All of it.\n" * 100)
    assert "result: All of it." in run("show", str(task.pk))
    output = json.loads(run("show", task.pk.hex, "--json"))
    assert output["result"].count("All") == 100


def test_cancel_command_cancels_a_task_and_audits_it(user_id):
    task = add_task(user_id)
    assert run("cancel", str(task.pk)) == f"task {task.pk} is cancelled\n"
    # The second time, nothing is cancelled or audited.
    run("cancel", str(task.pk))
    assert AuditEntry.objects.get(target=str(task.pk)).action == "task.cancel"


def test_failed_task_is_requeued(user_id):
    failed, done = add_task(user_id, "errored", error="x"), add_task(user_id, "done")
    assert run("retry", str(failed.pk), str(done.pk)).startswith("requeued 1;")
    failed.refresh_from_db()
    assert (failed.state, failed.error, failed.finished_at) == ("queued", "", None)
    with pytest.raises(CommandError, match="none of these tasks"):
        run("retry", str(done.pk))


def test_all_failed_tasks_of_a_kind_are_requeued(user_id):
    (task,) = Task.objects.enqueue([TaskSpec("smoke", user_id, "assistant")])
    Task.objects.filter(pk=task.pk).update(state="errored")
    run("retry", "--kind", "smoke")
    task.refresh_from_db()
    assert task.state == "queued"
    assert run("retry", "--kind", "smoke").startswith("requeued 0;")


def test_counts_include_failure_reasons(user_id):
    error = f"It broke for {user_id}."
    before = json.loads(run("counts", "--json"))["counts"].get("agent", {})
    add_task(user_id)
    for _ in range(20):
        add_task(user_id, "errored", error=error)
    output = json.loads(run("counts", "--json"))
    now = output["counts"]["agent"]
    assert now["queued"] == before.get("queued", 0) + 1
    assert now["errored"] == before.get("errored", 0) + 20
    assert {"kind": "agent", "error": error, "count": 20} in output["errors"]
    assert f"    20 agent: {error[:20]}" in run("counts")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["show", "x"], "'x' is not a task id"),
        (["show", "0" * 32], "There is no such task"),
        (["cancel", "0" * 32], "There is no such task"),
        (["retry"], "one of the arguments"),
        (["list", "--limit", "0"], "--limit: must be at least 1"),
    ],
)
def test_invalid_arguments_are_refused(arguments, expected):
    with pytest.raises(CommandError, match=expected):
        run(*arguments)
