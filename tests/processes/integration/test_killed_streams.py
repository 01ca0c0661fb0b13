"""A web process that is killed while a user's streams run, and the user's next turns.

With PostgreSQL another server answers them, with SQLite the next web process.
"""

import json
import os
import shutil
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from config.loading import secrets_file
from testing.scripted_provider import FakeProvider
from tests.processes.conftest import TIMEOUT_SECONDS, Project

pytestmark = pytest.mark.database

YAML = """
tasks: {{tools: false}}
users: shared
server: {{bind: 127.0.0.1, port: {port}}}
providers:
  openai: {{api_key: k, base_url: "{url}"}}
limits:
  - {{per: principal, concurrent: 2}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
"""
BODY = {
    "model": "assistant",
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
    "safety_identifier": "alice",
}
FREED_SECONDS = 15


@pytest.fixture
def servers(
    project: Project, database_url: str, fake: FakeProvider, tmp_path: Path
) -> Iterator[tuple[Project, Project]]:
    """The server that is killed, and the one that answers afterwards."""
    both = [project]
    if database_url:
        secrets_file.create_file(
            project.state.root / "secrets.env", user_namespace=uuid.uuid4()
        )
        shutil.copytree(project.root, tmp_path / "other")
        both.append(Project(tmp_path / "other"))
    for each in both:
        each.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
        if database_url:
            each.environment["DATABASE_URL"] = database_url
        each.config.write_text(YAML.format(port=each.port, url=fake.base_url))
    assert project.run("migrate", "-v", "0").returncode == 0
    for each in both:
        each.serve()
    yield both[0], both[-1]
    for each in both:
        each.clean()  # Before the database is dropped.
        each.attached.clear()


def send(server: Project) -> HTTPConnection:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_SECONDS)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(BODY), headers)
    return connection


def ask(server: Project) -> tuple[int, int]:
    """Return the status of a turn, and the seconds of its `Retry-After`."""
    with closing(send(server)) as connection:
        answer = connection.getresponse()
        answer.read()
        return answer.status, int(answer.headers["Retry-After"] or 0)


def test_user_is_served_soon_after_a_web_process_was_killed(
    servers: tuple[Project, Project], fake: FakeProvider
) -> None:
    killed, other = servers
    fake.hang()
    fake.hang()
    with closing(send(killed)), closing(send(killed)):
        fake.wait(lambda: len(fake.requests) == 2)
        assert ask(other) == (429, 1)
        [web] = killed.run_record.children
        os.kill(web.pid, signal.SIGKILL)
        killed_at = time.monotonic()
    fake.release()
    refusals: list[tuple[float, int]] = []
    while True:
        status, seconds = ask(other)
        waited = time.monotonic() - killed_at
        if status == 200:
            break
        assert status == 429
        refusals.append((waited, seconds))
        time.sleep(0.5)
    # Without another server, the answer waits for the start of a process.
    assert all(at < FREED_SECONDS for at, _ in refusals)
    # Once a heartbeat is missed, the hint is the time of the release.
    hints = [at + seconds for at, seconds in refusals if seconds > 2]
    assert all(waited - 1 < until < waited + 3 for until in hints)
    assert hints or killed is other
