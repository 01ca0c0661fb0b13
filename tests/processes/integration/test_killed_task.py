"""A worker that is killed in the middle of a task, under the real supervisor."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest

from testing.scripted_provider import FakeProvider, RecordedRequest
from testing.wires import ScriptedAnswer
from tests.memory.extraction_harness import fact
from tests.processes.conftest import Project, end

YAML = """
server: {{bind: 127.0.0.1, port: {port}}}
users: shared
tasks: {{drain_seconds: 3}}
providers:
  openai: {{api_key: k, base_url: "{url}"}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
"""
MEMORY = """
memory:
  user_state:
    embed_with: {provider: hash}
    learn_from: {provider: openai, model: cheap-test}
"""
WAIT_SECONDS = 60
TURNS = 30
REPLY = ScriptedAnswer(("Nice.",))


@pytest.fixture
def served(
    project: Project, fake: FakeProvider, request: pytest.FixtureRequest
) -> Iterator[Project]:
    """The whole server; its parameter, if any, is added to the YAML."""
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    del project.environment["COULISSE_PROCESSES"]
    yaml = YAML.format(port=project.port, url=fake.base_url)
    project.config.write_text(yaml + getattr(request, "param", ""))
    process = project.serve()
    yield project
    if process.poll() is None:
        end(process)


def ask(project: Project, method: str, path: str, body: Any = None) -> Any:
    connection = HTTPConnection("127.0.0.1", project.port, timeout=WAIT_SECONDS)
    with closing(connection):
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        return json.loads(connection.getresponse().read())


def create(project: Project, prompt: str) -> str:
    body = {"agent": "assistant", "prompt": prompt}
    return str(ask(project, "POST", "/v1/tasks", body)["id"])


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)
    return found


def wait_for_end(project: Project, task_id: str) -> Any:
    def find_ended() -> Any:
        task = ask(project, "GET", f"/v1/tasks/{task_id}")
        return task if task["finished_at"] else None

    return until(find_ended)


def child(project: Project, name: str) -> Any:
    record = project.run_record
    return next((child for child in record.children if child.name == name), None)


def execute(project: Project, statement: str) -> list[tuple[Any, ...]]:
    path = project.state.root / "coulisse-memory.db"
    with closing(sqlite3.connect(path, timeout=WAIT_SECONDS)) as database:
        return database.execute(statement).fetchall()


def messages(project: Project) -> list[tuple[Any, ...]]:
    return execute(project, "SELECT role, text FROM memory_message ORDER BY position")


def prompts(fake: FakeProvider) -> list[str]:
    return [body["messages"][-1]["content"] for body in fake.bodies]


def test_task_survives_kills_and_runs_once(served: Project, fake: FakeProvider) -> None:
    fake.reply("Done at once.")
    first = create(served, "one")
    assert wait_for_end(served, first)["result"] == "Done at once."

    # Killed in the middle.
    fake.hang()
    second = create(served, "two")
    fake.wait(lambda: len(fake.requests) == 2, WAIT_SECONDS)
    worker = child(served, "worker")
    os.kill(worker.pid, signal.SIGKILL)
    fake.release()
    fake.reply("Done in the end.")
    task = wait_for_end(served, second)
    assert (task["state"], task["result"]) == ("done", "Done in the end.")
    assert task["attempts"] == 2
    assert prompts(fake) == ["one", "two", "two"]

    # With the broker killed, tasks are found without a message.
    os.kill(child(served, "broker").pid, signal.SIGKILL)
    fake.reply("Without a message.")
    third = create(served, "three")
    assert wait_for_end(served, third)["result"] == "Without a message."

    assert messages(served) == [
        ("user", "one"),
        ("assistant", "Done at once."),
        ("user", "two"),
        ("assistant", "Done in the end."),
        ("user", "three"),
        ("assistant", "Without a message."),
    ]
    # A task that is stopped in the middle is requeued for the next start.
    fake.reply("It", " lasts.", pause_seconds=60)
    create(served, "four")
    fake.wait(lambda: len(fake.requests) == 5, WAIT_SECONDS)
    [process] = served.attached
    process.send_signal(signal.SIGTERM)
    # Celery may log the lost connection to the killed broker with a traceback.
    output = process.communicate(timeout=WAIT_SECONDS)[0]
    lost = ("redis/connection.py", "coulisse_site/broker_transport.py")
    _, *tracebacks = output.split("Traceback")
    assert [each for each in tracebacks if not any(path in each for path in lost)] == []
    assert "Unrecoverable" not in output
    row = "SELECT state, attempts, interruptions FROM tasks_task WHERE prompt = 'four'"
    assert execute(served, row) == [("queued", 1, 0)]
    counted = json.loads(served.run("tasks", "counts", "--json").stdout)
    assert counted["counts"] == {"agent": {"done": 3, "queued": 1}}


@pytest.mark.parametrize("served", [MEMORY], indirect=True)
def test_turns_of_a_killed_worker_are_learnt_once(
    served: Project, fake: FakeProvider
) -> None:
    cat = json.dumps({"facts": [fact("The user has a cat.", "I have a cat")]})

    def answer(request: RecordedRequest) -> ScriptedAnswer:
        is_extraction = request.body["model"] == "cheap-test"
        return ScriptedAnswer((cat,), pause_seconds=0.1) if is_extraction else REPLY

    def extractions() -> int:
        return [body["model"] for body in fake.bodies].count("cheap-test")

    fake.default = answer
    for number in range(TURNS):
        message = {"role": "user", "content": "I have a cat"}
        body = {"model": "assistant", "messages": [message]}
        user = {"safety_identifier": f"user-{number}"}
        ask(served, "POST", "/v1/chat/completions", {**body, **user})
        if number in (TURNS // 3, 2 * TURNS // 3):
            seen = extractions()
            fake.wait(lambda seen=seen: extractions() > seen, WAIT_SECONDS)
            os.kill(child(served, "worker").pid, signal.SIGKILL)
    open_tasks = "SELECT count(*) FROM tasks_task WHERE finished_at IS NULL"
    until(lambda: execute(served, open_tasks) == [(0,)])
    tasks = execute(
        served, "SELECT kind, state, count(*) FROM tasks_task GROUP BY 1, 2"
    )
    assert tasks == [("extraction", "done", TURNS)]
    facts = "SELECT count(*), count(DISTINCT user_id) FROM memory_fact"
    assert execute(served, facts) == [(TURNS, TURNS)]
    changes = "SELECT count(*), count(DISTINCT fact_id) FROM memory_factchange"
    assert execute(served, changes) == [(TURNS, TURNS)]
    interrupted = "SELECT sum(interruptions) FROM tasks_task"
    assert execute(served, interrupted)[0][0] >= 1
