"""Two beats in processes of their own, without a broker: each tick runs once."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.processes.conftest import MANAGE, Project, end, until

pytestmark = pytest.mark.database

CRON = """\
  - {name: often, type: cron, schedule: "* * * * * *", agent: assistant, prompt: Go.}
"""
LIST_RUNS = """
from tasks.models import Task
from triggers.models import TriggerState
import json
state = TriggerState.objects.filter(name="often").first() or TriggerState()
ticks = [task.payload["tick"] for task in Task.objects.filter(agent="assistant")]
later = Task.objects.filter(agent="pm").count()
print(json.dumps([sorted(ticks), later, state.repeated, state.missed]))
"""


@pytest.fixture
def start_beat(
    project: Project, database_url: str
) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Return a function that starts a beat of the project."""
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    if database_url:
        project.environment["DATABASE_URL"] = database_url
    with project.config.open("a") as file:
        file.write(f"triggers:\n{CRON}")
    migrated = project.run("migrate", "-v", "0")
    assert migrated.returncode == 0, migrated.stderr

    def start() -> subprocess.Popen[str]:
        beat = subprocess.Popen(
            [sys.executable, MANAGE, "beat"],
            cwd=project.root,
            env=project.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        project.attached.append(beat)
        return beat

    yield start
    project.clean()  # Before the database is dropped.


def read(project: Project) -> tuple[list[datetime], int, int, int]:
    """Return the ticks, the runs of another cron, and two counters."""
    listed = project.run("shell", "-v", "0", "-c", LIST_RUNS)
    assert listed.returncode == 0, listed.stderr
    ticks, *counts = json.loads(listed.stdout)
    return [datetime.fromisoformat(tick) for tick in ticks], *counts


def test_each_tick_runs_once_while_beats_come_and_go(
    project: Project, start_beat: Callable[[], subprocess.Popen[str]]
) -> None:
    first, second = start_beat(), start_beat()
    until(lambda: len(read(project)[0]) >= 3)
    assert (first.poll(), second.poll()) == (None, None)
    first.kill()
    killed_at = datetime.now(UTC)
    until(lambda: read(project)[0][-1] > killed_at + timedelta(seconds=5))
    # The other one follows an edit.
    with project.config.open("a") as file:
        file.write(CRON.replace("often", "later").replace("assistant", "pm"))
    until(lambda: read(project)[1] > 0)
    end(second)
    ticks, _, repeated, missed = read(project)
    steps = {later - earlier for earlier, later in pairwise(ticks)}
    assert steps == {timedelta(seconds=1)}
    assert (repeated, missed) == (0, 0)
