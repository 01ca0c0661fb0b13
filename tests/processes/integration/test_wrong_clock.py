"""Two machines on one PostgreSQL, one of which has a clock 45 seconds ahead."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from testing.scripted_provider import FakeProvider
from tests.processes.conftest import MANAGE, Project, until
from tests.processes.integration.test_two_beats import CRON, read
from tests.providers.broker import run_broker

FAKETIME = next(iter(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
WRONG = {
    "LD_PRELOAD": str(FAKETIME),
    "FAKETIME": "+45s",
    # As on a real machine: its wrong clock is not the monotonic one.
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "DONT_FAKE_MONOTONIC": "1",
}
RIGHT: dict[str, str] = {}
WAIT_SECONDS = 15
"""Three recoveries."""
YAML = """
providers:
  openai:
    api_key: k
    base_url: "{url}"
    timeouts: {{first_token_seconds: 600}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
  - {{name: pm, provider: openai, model: gpt-test}}
"""
ADD = """
import uuid
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec
Task.objects.enqueue([
    TaskSpec("agent", uuid.uuid4(), "assistant", "Go.", delay_seconds={seconds})
    for number in range({count})
])
"""
COUNT_WORKERS = """
from database.models import RunningProcess
print(RunningProcess.objects.filter(kind="worker").count())
"""
LIST = """
import json
from tasks.models import Task
rows = Task.objects.order_by("created_at", "id").values_list(
    "state", "attempts", "worker", "created_at", "started_at"
)
print(json.dumps(list(rows), default=lambda value: value.timestamp()))
"""

pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(FAKETIME is None, reason="needs the package faketime"),
    pytest.mark.skipif(
        connection.vendor != "postgresql", reason="SQLite serves one machine"
    ),
]


@pytest.fixture
def fleet(
    project: Project, database_url: str, tmp_path: Path, fake: FakeProvider
) -> Iterator[Project]:
    """A project on PostgreSQL with a broker, of which no process runs yet."""
    project.config.write_text(YAML.format(url=fake.base_url))
    project.environment |= {
        "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
        "DATABASE_URL": database_url,
    }
    with run_broker(tmp_path) as url:
        project.environment["REDIS_URL"] = url
        migrated = project.run("migrate", "-v", "0")
        assert migrated.returncode == 0, migrated.stderr
        yield project
        project.clean()  # Before the database is dropped.


def start(project: Project, command: str, clock: dict[str, str]) -> None:
    process = subprocess.Popen(
        [sys.executable, MANAGE, command],
        cwd=project.root,
        env={**project.environment, **clock},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    project.attached.append(process)


def shell(project: Project, code: str) -> str:
    done = project.run("shell", "-v", "0", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tasks(project: Project) -> list[Any]:
    return json.loads(shell(project, LIST) or "[]")


def test_worker_of_a_wrong_clock_takes_nothing_and_runs_nothing_early(
    fleet: Project, fake: FakeProvider
) -> None:
    for _ in range(4):
        fake.hang()
    for command in ("worker", "beat"):
        start(fleet, command, RIGHT)
    # A new database takes the namespace of user ids of its first process.
    until(lambda: shell(fleet, COUNT_WORKERS).strip() == "1")
    shell(fleet, ADD.format(count=4, seconds=0))
    fake.wait(lambda: len(fake.requests) == 4, 60)
    before = tasks(fleet)
    for command in ("worker", "beat"):
        start(fleet, command, WRONG)
    shell(fleet, ADD.format(count=1, seconds=WAIT_SECONDS))
    fake.reply("Done.")
    until(lambda: len(fake.requests) == 5)
    *running, delayed = tasks(fleet)
    # The worker of the right clock has no free slot: the other one ran it, in time.
    assert running == before
    assert [attempts for _, attempts, *_ in running] == [1] * 4
    _, attempts, worker, created_at, started_at = delayed
    assert attempts == 1
    assert worker != running[0][2]
    # By the wrong clock it would be 45 seconds early or late.
    assert WAIT_SECONDS <= started_at - created_at < WAIT_SECONDS + 40


def test_beats_of_different_clocks_run_each_tick_once(fleet: Project) -> None:
    with fleet.config.open("a") as file:
        file.write(f"triggers:\n{CRON}")
    for clock in (RIGHT, WRONG):
        start(fleet, "beat", clock)
    until(lambda: len(read(fleet)[0]) >= 3)
    time.sleep(WAIT_SECONDS)
    ticks, _, repeated, missed = read(fleet)
    steps = {later - earlier for earlier, later in pairwise(ticks)}
    assert steps == {timedelta(seconds=1)}
    assert (repeated, missed) == (0, 0)
    assert ticks[-1] <= datetime.now(UTC)
