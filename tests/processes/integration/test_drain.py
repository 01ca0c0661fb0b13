"""A server and workers that stop while replies and tasks run."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse

import pytest

from testing.scripted_provider import FakeProvider
from tests.processes.conftest import MANAGE, TIMEOUT_SECONDS, Project, end, until
from tests.processes.integration.test_killed_task import (
    child,
    create,
    execute,
    wait_for_end,
)

YAML = """
server: {{bind: 127.0.0.1, port: {port}, {server}}}
users: shared
tasks: {{{tasks}}}
providers:
  openai: {{api_key: k, base_url: "{url}"}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
"""
REPLY = [str(number) for number in range(20)]


def serve(
    project: Project,
    fake: FakeProvider,
    *,
    processes: str = "web",
    server: str = "",
    tasks: str = "",
) -> subprocess.Popen[str]:
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    project.environment["COULISSE_PROCESSES"] = processes
    yaml = YAML.format(port=project.port, url=fake.base_url, server=server, tasks=tasks)
    project.config.write_text(yaml)
    return project.serve()


def open_stream(project: Project) -> tuple[HTTPConnection, HTTPResponse]:
    connection = HTTPConnection("127.0.0.1", project.port, timeout=TIMEOUT_SECONDS)
    message = {"role": "user", "content": "hi"}
    body = {"model": "assistant", "messages": [message], "stream": True}
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    return connection, connection.getresponse()


def read_text(response: HTTPResponse) -> str:
    """Return the reply of a whole stream."""
    lines = response.read().decode().splitlines()
    assert lines[-2:] == ["data: [DONE]", ""] or "data: [DONE]" in lines
    frames = [line[6:] for line in lines if line.startswith("data: {")]
    choices = [json.loads(frame)["choices"] for frame in frames]
    deltas = [each[0]["delta"] for each in choices if each]
    return "".join(delta.get("content") or "" for delta in deltas)


def get(connection: HTTPConnection, path: str) -> HTTPResponse:
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response


def is_refused(project: Project) -> bool:
    try:
        with closing(HTTPConnection("127.0.0.1", project.port, timeout=5)) as attempt:
            attempt.connect()
    except ConnectionRefusedError:
        return True
    return False


def test_lame_duck_serves_while_the_balancer_notices(
    project: Project, fake: FakeProvider
) -> None:
    process = serve(project, fake, server="drain_seconds: 30, lame_duck_seconds: 4")
    idle = HTTPConnection("127.0.0.1", project.port, timeout=TIMEOUT_SECONDS)
    assert get(idle, "/health/ready").status == 200
    fake.reply(*REPLY, pause_seconds=0.4)
    connection, stream = open_stream(project)
    started_at = time.monotonic()
    process.send_signal(signal.SIGTERM)

    # Not ready at once, on a connection of before, which ends with this response.
    until(lambda: get(idle, "/health/ready").status == 503)
    with urllib.request.urlopen(f"{project.url}/health/live") as alive:
        assert alive.headers["Connection"] == "close"
    fake.reply("Accepted.")
    accepted, reply = open_stream(project)
    assert read_text(reply) == "Accepted."
    until(lambda: is_refused(project))
    assert time.monotonic() - started_at >= 4

    assert read_text(stream) == "".join(REPLY)
    process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0
    for each in (idle, connection, accepted):
        each.close()
    rows = execute(
        project, "SELECT text, finish_reason FROM memory_message ORDER BY position"
    )
    texts = sorted(text for text, _ in rows)
    assert texts == sorted(["hi", "hi", "Accepted.", "".join(REPLY)])
    assert "cancelled" not in [reason for _, reason in rows]


def test_readiness_of_a_lame_duck_says_when_to_come_back(
    project: Project, fake: FakeProvider
) -> None:
    process = serve(project, fake, server="lame_duck_seconds: 3")
    process.send_signal(signal.SIGTERM)
    responses = []

    def is_stopping() -> bool:
        with closing(HTTPConnection("127.0.0.1", project.port, timeout=5)) as attempt:
            responses.append(get(attempt, "/health/ready"))
        return responses[-1].status == 503

    until(is_stopping)
    assert responses[-1].headers["Retry-After"] == "2"
    assert responses[-1].headers["Connection"] == "close"
    process.communicate(timeout=TIMEOUT_SECONDS)


def test_reply_that_takes_longer_is_stored_as_far_as_it_came(
    project: Project, fake: FakeProvider
) -> None:
    process = serve(project, fake, server="drain_seconds: 1")
    fake.hang("mid_stream", "first", "second")
    connection, stream = open_stream(project)
    until(lambda: "first" in stream.readline().decode())
    end(process)
    assert "server_stopping" in stream.read().decode()
    connection.close()
    rows = execute(project, "SELECT role, text, finish_reason FROM memory_message")
    assert ("assistant", "first", "cancelled") in rows


def test_stop_waits_as_long_as_the_drain_and_says_for_what(
    project: Project, fake: FakeProvider
) -> None:
    serve(project, fake, server="drain_seconds: 40")
    fake.reply(*REPLY, pause_seconds=0.9)
    connection, stream = open_stream(project)
    commands = []
    for _ in range(2):  # The second waits, too; its signal would end the server.
        command = [sys.executable, MANAGE, "stop"]
        commands.append(
            subprocess.Popen(
                command,
                cwd=project.root,
                env=project.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        until(lambda: project.run_record.stops_by)
    assert read_text(stream) == "".join(REPLY)
    connection.close()
    for command in commands:
        output, report = command.communicate(timeout=TIMEOUT_SECONDS)
        assert command.returncode == 0, report
        assert output.startswith(("stopped (pid ", "not running"))
        assert "waiting for open replies (web-1)" in report
        assert "`stop --force` ends them at once" in report


def test_forced_stop_ends_a_drain(project: Project, fake: FakeProvider) -> None:
    process = serve(project, fake, server="drain_seconds: 600")
    fake.hang("mid_stream", "first", "second")
    connection, stream = open_stream(project)
    until(lambda: "first" in stream.readline().decode())
    process.send_signal(signal.SIGTERM)
    until(lambda: project.run_record.stops_by)
    assert project.run("stop", "--force").returncode == 0
    process.communicate(timeout=TIMEOUT_SECONDS)
    connection.close()
    assert project.processes() == []


@pytest.fixture
def second_worker(project: Project) -> Iterator[subprocess.Popen[bytes]]:
    """A second worker of the server, once the first one runs."""

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, MANAGE, "worker", "-n", "second@%h"]
        return subprocess.Popen(command, cwd=project.root, env=project.environment)

    processes: list[subprocess.Popen[bytes]] = []
    yield lambda: processes.append(start()) or processes[-1]
    for process in processes:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)


def worker_pid(project: Project) -> int:
    [(worker,)] = execute(
        project, "SELECT worker FROM tasks_task WHERE state='running'"
    )
    return int(worker.split(":")[1])


def test_task_finishes_in_a_worker_that_stops(
    project: Project, fake: FakeProvider
) -> None:
    process = serve(project, fake, processes="web,worker,beat")
    until(lambda: child(project, "worker"))
    fake.reply(*REPLY, pause_seconds=0.4)
    create(project, "long")
    fake.wait(lambda: len(fake.requests) == 1, TIMEOUT_SECONDS)
    end(process)
    row = "SELECT state, attempts, result FROM tasks_task"
    assert execute(project, row) == [("done", 1, "".join(REPLY))]


def test_task_that_takes_longer_is_handed_over(
    project: Project, fake: FakeProvider, second_worker
) -> None:
    process = serve(
        project, fake, processes="web,worker,beat", tasks="drain_seconds: 2"
    )
    until(lambda: child(project, "worker"))
    second = second_worker()
    fake.hang()
    task_id = create(project, "long")
    fake.wait(lambda: len(fake.requests) == 1, TIMEOUT_SECONDS)
    fake.reply("Done by the other.")
    first_pid = worker_pid(project)
    signalled_at = time.time()
    os.kill(first_pid, signal.SIGTERM)
    fake.wait(lambda: len(fake.requests) == 2, TIMEOUT_SECONDS)
    handed_over = time.time() - signalled_at
    task = wait_for_end(project, task_id)
    assert (task["state"], task["result"]) == ("done", "Done by the other.")
    row = "SELECT attempts, interruptions, failures FROM tasks_task"
    assert execute(project, row) == [(2, 0, 0)]
    # Released, not found by its lease of 30 seconds.
    assert 2 <= handed_over < 20
    second.terminate()
    second.wait(TIMEOUT_SECONDS)
    end(process)
