"""A web process that is killed in the middle of a turn, under the real supervisor."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from typing import Any

import pytest

from testing.scripted_provider import FakeProvider
from tests.processes.conftest import TIMEOUT_SECONDS, Project, end, until

YAML = """
tasks: {{tools: false}}
server: {{bind: 127.0.0.1, port: {port}}}
auth: {{proxy: {{tokens: {{}}}}}}
providers:
  openai: {{api_key: k, base_url: "{url}"}}
# A dollar per ten tokens.
prices: {{openai: {{gpt-test: {{input: 100000, output: 100000}}}}}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
"""
BODY = {
    "model": "assistant",
    "messages": [{"role": "user", "content": "hi"}],
    "max_tokens": 3,
    # Every turn's prompt has the same length.
    "metadata": {"history": "client"},
}
COST = 1_000_000
"""Cost of the ten tokens of a scripted reply, in micro-dollars."""
ESTIMATE = 800_000
LIMIT = "2"
"""In dollars: covers the cost of one turn and the estimate of one more, not of two."""


@pytest.fixture
def served(project: Project, fake: FakeProvider) -> Iterator[Project]:
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    project.config.write_text(YAML.format(port=project.port, url=fake.base_url))
    process = project.serve()
    yield project
    end(process)


def send(project: Project, secret: str) -> HTTPConnection:
    connection = HTTPConnection("127.0.0.1", project.port, timeout=TIMEOUT_SECONDS)
    headers = {
        "Authorization": f"Bearer {secret}",
        "Content-Type": "application/json",
    }
    connection.request("POST", "/v1/chat/completions", json.dumps(BODY), headers)
    return connection


def status(project: Project, secret: str) -> int:
    with closing(send(project, secret)) as connection:
        return connection.getresponse().status


def execute(project: Project, statement: str, *values: int) -> list[Any]:
    path = project.state.root / "coulisse-memory.db"
    with closing(sqlite3.connect(path, timeout=TIMEOUT_SECONDS)) as database, database:
        return database.execute(statement, values).fetchall()


def usage(project: Project) -> tuple[int, int, int]:
    """Return the token's spending, its reservations and its running turns."""
    [row] = execute(
        project,
        "SELECT micro_usd, micro_usd_reserved_now + micro_usd_reserved_before, "
        "turns_reserved_now + turns_reserved_before "
        "FROM access_usagecounter WHERE subject LIKE 'token:%' AND \"window\" = 0",
    )
    return tuple(row)


def test_reservation_of_a_killed_turn_is_released(
    served: Project, fake: FakeProvider
) -> None:
    secret = served.run(
        "token",
        "create",
        "ci",
        "--principal",
        "alice",
        "--budget",
        "total",
        "--limit",
        LIMIT,
    ).stdout.strip()
    assert status(served, secret) == 200
    fake.hang()
    with closing(send(served, secret)) as connection:
        fake.wait(lambda: len(fake.requests) == 2)
        assert usage(served) == (COST, ESTIMATE, 1)
        [web] = served.run_record.children
        os.kill(web.pid, signal.SIGKILL)
        with suppress(HTTPException, OSError):
            assert not connection.getresponse()
    fake.release()
    # Connections wait while another process starts. The usage of the killed turn is
    # unknown, so its reservation counts until its process is known to be gone.
    until(lambda: status(served, secret) == 200)
    assert len(fake.requests) == 3
    assert usage(served) == (2 * COST, 0, 0)
