"""A full database moves there and back through killed commands, and serves turns."""

import json
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection

from coulisse_site import environment
from database.transfer import databases
from database.transfer.databases import TARGET
from database.transfer.progress import TransferProgress
from testing.scripted_provider import FakeProvider
from tests.processes.conftest import MANAGE, TIMEOUT_SECONDS, Project, end

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

YAML = """
server: {{bind: 127.0.0.1, port: {port}}}
users: per-request
memory: {{user_state: {{embed_with: {{provider: hash, dims: 64}}}}}}
providers:
  openai: {{api_key: k, base_url: "{url}"}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
"""
KILLED_AFTER = (1, 40)
"""Steps of the move after which the command is killed."""


@pytest.fixture
def moving(project: Project, fake: FakeProvider) -> Project:
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    project.config.write_text(YAML.format(port=project.port, url=fake.base_url))
    return project


def send(project: Project, path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "X-Coulisse-User": "ada"}
    request = urllib.request.Request(
        project.url + path, json.dumps(body).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        return json.load(response)


def say(project: Project, fake: FakeProvider, text: str) -> str:
    """Run a turn, and return what its model received."""
    messages = [{"role": "user", "content": text}]
    body = {"model": "assistant", "messages": messages, "metadata": {"thread": "trip"}}
    send(project, "/v1/chat/completions", body)
    return json.dumps(fake.requests[-1].body["messages"])


def move(project: Project, url: str) -> str:
    """Move all rows by commands of which the first ones are killed."""
    arguments = [sys.executable, MANAGE, "migrate-database", "--to", url]
    for steps in KILLED_AFTER:
        process = subprocess.Popen(
            arguments,
            cwd=project.root,
            env=project.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 2 * TIMEOUT_SECONDS
        while process.poll() is None and count_steps(url) < steps:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert count_steps(url) >= steps
    moved = project.run("migrate-database", "--to", url)
    assert moved.returncode == 0, moved.stderr
    return moved.stdout


def count_steps(url: str) -> int:
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite") and not path.exists():
        return 0
    with ExitStack() as stack:
        settings = environment.parse_database_url(url)
        stack.enter_context(databases.named(TARGET, settings))
        stack.enter_context(suppress(DatabaseError))
        cursor = stack.enter_context(connection.cursor())
        cursor.execute(f"SELECT count(*) FROM {TransferProgress.TABLE}")
        return int(cursor.fetchone()[0])
    return 0


def test_database_moves_there_and_back(
    moving: Project, fake: FakeProvider, database_url: str, tmp_path: Path
) -> None:
    assert moving.run("migrate", "--verbosity=0").returncode == 0
    demo = moving.run("demo", "--users=10", "--turns=300", "--messages=1500")
    assert demo.returncode == 0, demo.stderr
    server = moving.serve()
    fact = {"content": "Plays the cello in an orchestra"}
    send(moving, "/v1/memories", fact)
    say(moving, fake, "We sail to Lisbon")
    end(server)
    file = moving.state.root / "coulisse-memory.db"
    url = database_url or f"sqlite:///{tmp_path / 'moved.db'}"

    assert "all equal" in move(moving, url)

    if database_url:
        moving.environment["DATABASE_URL"] = url
        file.unlink()
    else:
        (tmp_path / "moved.db").replace(file)
    server = moving.serve()
    received = say(moving, fake, "Which instrument do I play, the cello?")
    assert "We sail to Lisbon" in received
    assert fact["content"] in received
    end(server)
    back = tmp_path / "back.db"
    assert "all equal" in move(moving, f"sqlite:///{back}")
    verified = moving.run("migrate-database", "--verify", "--to", f"sqlite:///{back}")
    assert verified.returncode == 0, verified.stderr
    moving.environment.pop("DATABASE_URL", None)
    back.replace(file)
    server = moving.serve()
    received = say(moving, fake, "And which instrument was it again?")
    assert "the cello?" in received
    end(server)
