"""The checks of the database, the queue, MCP servers and providers."""

import json
import sys
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core import checks
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder

from config.loading import loader
from core.ids import UserId
from database import doctor as database_doctor
from database import schema
from mcp_bridge import doctor as mcp_doctor
from processes.doctor import runner
from providers import doctor as providers_doctor
from tasks import doctor as tasks_doctor
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec
from tests.conftest import CONFIG
from tests.processes.doctor.test_host_checks import texts

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

KEY = "sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs"
RAW_SERVER = Path(__file__).parents[2] / "mcp_bridge/raw_stdio_server.py"


@pytest.fixture
def load(tmp_path, fake):
    def load(more: str = ""):
        path = tmp_path / "coulisse.yaml"
        path.write_text(CONFIG.replace("{fake}", fake.root_url) + more)
        return loader.load_file(path)

    return load


# The database.


def check_database():
    return list(database_doctor.check_database(None))


def test_database_is_described():
    found = check_database()
    assert {each.level for each in found} == {checks.INFO}
    assert connection.display_name in found[0].msg
    assert str(connection.settings_dict["NAME"]) in found[0].msg
    is_postgresql = connection.vendor == "postgresql"
    assert ("pgvector" in texts(found)) == is_postgresql


def test_clock_that_differs_from_the_databases_is_a_warning(monkeypatch):
    assert "the clock" not in texts(check_database())
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + 60)
    is_postgresql = connection.vendor == "postgresql"
    found = texts(check_database(), checks.WARNING)
    assert ("is 60 s ahead of the database's" in found) == is_postgresql


def test_write_test_leaves_no_row():
    check_database()
    rows = MigrationRecorder(connection).applied_migrations()
    assert not [app for app, _ in rows if app == "doctor"]


def test_unreachable_database_is_a_problem(monkeypatch):
    def fail():
        raise OperationalError("connection refused")

    monkeypatch.setattr(connection, "ensure_connection", fail)
    [found] = check_database()
    assert found.level == checks.ERROR
    assert "connection refused" in found.msg
    assert found.hint


def test_readonly_database_is_a_problem():
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA query_only = 1")
        else:
            cursor.execute("SET default_transaction_read_only = on")
    try:
        assert "cannot be written" in texts(check_database(), checks.ERROR)
    finally:
        connection.close()


def test_missing_migrations_are_a_problem(monkeypatch):
    monkeypatch.setattr(schema, "missing_migrations", lambda: ["a.1", "c.2"])
    found = texts(check_database(), checks.ERROR)
    assert "it lacks 2 migrations (a.1, c.2) → run `coulisse migrate`" in found


def test_newer_database_is_a_problem():
    recorder = MigrationRecorder(connection)
    recorder.record_applied("memory", "9999_of_the_future")
    try:
        found = texts(check_database(), checks.ERROR)
    finally:
        recorder.record_unapplied("memory", "9999_of_the_future")
    assert "memory.9999_of_the_future, which this version lacks" in found


def test_missing_sqlite_file_is_a_warning(monkeypatch):
    monkeypatch.setattr(connection, "vendor", "sqlite")
    monkeypatch.setitem(connection.settings_dict, "NAME", "/nowhere/coulisse.db")
    [found] = check_database()
    assert found.level == checks.WARNING
    assert "does not exist yet" in found.msg


def test_other_checks_name_the_database_that_cannot_be_used(monkeypatch):
    def fail(_):
        raise OperationalError("connection refused")

    monkeypatch.setattr(tasks_doctor, "check_queue", fail)
    paths = {"queue": "tasks.doctor.check_queue"}
    [found] = runner.run_checks(paths, None, seconds=30)
    assert (found.level, found.remedy) == ("warning", "see the check of the database")


# The queue.


def add_task(**fields) -> Task:
    [task] = Task.objects.enqueue(
        [TaskSpec("agent", UserId(uuid.uuid4()), "assistant", "hi")]
    )
    Task.objects.filter(pk=task.pk).update(**fields)
    return task


@pytest.mark.parametrize(
    ("fields", "level", "text"),
    [
        ({"due_at": timedelta(days=-30)}, checks.ERROR, "do not keep up"),
        (
            {"state": "running", "due_at": timedelta(days=-30)},
            checks.WARNING,
            "of workers that died",
        ),
        (
            {"state": "errored", "finished_at": timedelta(minutes=-1)},
            checks.WARNING,
            "failed for good",
        ),
    ],
)
def test_waiting_and_failed_tasks_are_reported(load, fields, level, text):
    now = datetime.now(UTC)
    task = add_task(
        **{
            name: now + value if isinstance(value, timedelta) else value
            for name, value in fields.items()
        }
    )
    found = list(tasks_doctor.check_queue(load()))
    task.delete()
    assert text in texts(found, level)


def test_disabled_tasks_may_wait(load):
    task = add_task(due_at=datetime.now(UTC) - timedelta(days=30))
    found = list(tasks_doctor.check_queue(load("tasks: {enabled: false}\n")))
    task.delete()
    assert "tasks.enabled is false" in texts(found, checks.INFO)


# MCP servers.


def test_mcp_servers_are_called(load):
    command = json.dumps(sys.executable)
    arguments = json.dumps(["-I", "-S", str(RAW_SERVER), ""])
    config = load(
        f"mcp:\n  good: {{command: {command}, args: {arguments}}}\n"
        "  missing: {command: no-such-program}\n"
        f"  silent: {{url: 'http://127.0.0.1:9/mcp', headers: {{X-Key: {KEY}}}}}\n"
    )
    found = list(mcp_doctor.check_servers(config))
    assert "good: " in texts(found, checks.INFO)
    problems = texts(found, checks.ERROR)
    assert "missing: " in problems
    assert "silent: " in problems
    assert KEY not in problems


def test_no_mcp_servers_have_no_finding(load):
    assert list(mcp_doctor.check_servers(load())) == []


# Providers.


def test_keys_are_named_and_not_shown(load):
    found = texts(providers_doctor.check_providers(load()), checks.INFO)
    assert "openai: has a key" in found
    assert "anthropic: has a key" in found
    assert "sk-" not in found


def test_each_model_is_asked_for_one_token(load, fake):
    found = list(providers_doctor.ask_models(load()))
    assert sorted(each.msg for each in found) == [
        "anthropic/claude-test answers",
        "openai/gpt-test answers",
    ]
    limits = [
        request.body.get("max_completion_tokens", request.body.get("max_tokens"))
        for request in fake.requests
    ]
    assert limits == [1, 1]


def test_refused_key_is_a_problem(load, fake):
    for _ in range(2):
        fake.fail(401, f"Incorrect API key provided: {KEY}")
    found = list(providers_doctor.ask_models(load()))
    assert {each.level for each in found} == {checks.ERROR}
    assert "used by assistant, forgetful, tuned" in texts(found)
    assert KEY not in texts(found)


def test_model_that_refuses_one_token_is_asked_without_a_limit(load, fake, monkeypatch):
    monkeypatch.setattr(providers_doctor, "MAX_MODELS", 1)
    fake.fail(400, "max_tokens is too small")
    more, found = providers_doctor.ask_models(load())
    assert more.msg == "only 1 of 2 models are asked"
    assert found.msg == "openai/gpt-test answers"
    first, second = [request.body for request in fake.requests]
    assert first == {**second, "max_tokens": 1}
