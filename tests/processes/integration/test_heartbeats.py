"""Each process of a server writes its row, and deletes it when it ends."""

import os
import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.processes.conftest import TIMEOUT_SECONDS, Project, end, until

ROWS_SQL = "SELECT kind, pid FROM database_runningprocess ORDER BY kind, started_at"


def rows(project: Project) -> list[tuple[str, int]]:
    path = project.state.root / "coulisse-memory.db"
    with closing(sqlite3.connect(path, timeout=TIMEOUT_SECONDS)) as database:
        try:
            return database.execute(ROWS_SQL).fetchall()
        except sqlite3.OperationalError:
            return []  # The tables are not migrated yet.


def kinds(project: Project) -> list[str]:
    return [kind for kind, _ in rows(project)]


def handles_sigterm(pid: int) -> bool:
    """Return whether a process ends in order; while it starts, a signal kills it."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = re.search(r"SigCgt:\s*(\w+)", status)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_rows_exist_while_processes_run(project: Project) -> None:
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    project.environment["COULISSE_PROCESSES"] = "web,worker,beat"
    process = project.serve()
    until(lambda: kinds(project) == ["beat", "web", "worker"])
    killed = dict(rows(project))["worker"]
    os.kill(killed, signal.SIGKILL)
    until(lambda: kinds(project) == ["beat", "web", "worker", "worker"])
    until(
        lambda: all(handles_sigterm(pid) for _, pid in rows(project) if pid != killed)
    )
    end(process)
    # Only the killed one could not delete its row.
    assert rows(project) == [("worker", killed)]
