"""Servers and jobs that start at once on a database without tables."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.conftest import MANAGE, Project, end, until

pytestmark = pytest.mark.database
NAMESPACE = "6f4a54e1-8c1e-4b43-a9f5-4d3cf8f0a001"


def start(project: Project, *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, MANAGE, *words],
        cwd=project.root,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    project.attached.append(process)
    return process


def test_two_migrations_at_once(project: Project, database_url: str) -> None:
    if database_url:
        project.environment["DATABASE_URL"] = database_url
    both = [start(project, "migrate") for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    first, second = sorted(outputs, key=lambda text: "waiting for it" in text)
    assert "Applying memory.0001_initial... OK" in first
    assert "another process migrates this database: waiting for it" in second
    assert "No migrations to apply" in second


def test_two_servers_at_once(
    project: Project, database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Project(tmp_path / "other")
    if database_url:
        for each in (project, other):
            each.environment["DATABASE_URL"] = database_url
            each.environment["COULISSE_USER_NAMESPACE"] = NAMESPACE
    try:
        both = [project.attach(), other.attach()]
        for each, process in zip((project, other), both, strict=True):
            until(lambda each=each, pid=process.pid: each.is_serving(pid))
    finally:
        other.clean()


def test_start_without_migrations_waits_for_them(
    project: Project, database_url: str
) -> None:
    if database_url:
        project.environment["DATABASE_URL"] = database_url
    server = start(project, "start", "--foreground", "--no-migrate")
    assert server.stdout is not None
    line = server.stdout.readline()
    assert "waiting for `coulisse migrate`" in line, line + server.stdout.read()
    assert project.run("migrate", "-v0").returncode == 0
    until(lambda: project.is_serving(server.pid))
    end(server)


def test_worker_waits_for_the_tables(project: Project, database_url: str) -> None:
    if database_url:
        project.environment["DATABASE_URL"] = database_url
    worker = start(project, "worker")
    assert worker.stdout is not None
    while "jobs wait for the database: it lacks" not in worker.stdout.readline():
        assert worker.poll() is None
    end(worker)
