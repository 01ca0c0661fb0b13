"""Broker, worker and beat beside the real application."""

import os
import re
import signal
import socket
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from kombu import Connection
from kombu.exceptions import OperationalError

from coulisse_site import redis_urls
from coulisse_site.celery import app
from processes import worker
from processes.server import background_processes, stop_limits
from processes.server.background_processes import BackgroundPlan
from processes.supervision.run_state import ChildRecord
from tasks.config import TasksConfig
from tests.processes.conftest import TIMEOUT_SECONDS, Project, end, until

NAMES = ["web-1", "broker", "worker", "beat"]
JOBS = "tests.processes.support.small_tasks.tasks"


@pytest.fixture
def served(project: Project) -> Project:
    """The project with web, broker, worker and beat."""
    project.environment["DJANGO_SETTINGS_MODULE"] = (
        "tests.processes.support.background_settings"
    )
    project.environment["COULISSE_PROCESSES"] = "web,worker,beat"
    project.serve()
    until(lambda: [child.name for child in project.run_record.children] == NAMES)
    return project


def send(project: Project, job: str, *arguments: object) -> bool:
    """Send a message; return whether the broker accepted it."""
    url = redis_urls.socket_url(redis_urls.private_socket_path(project.state.root))
    options = app.conf.broker_transport_options
    with Connection(
        redis_urls.celery_url(url), transport_options=options
    ) as connection:
        try:
            app.send_task(
                f"{JOBS}.{job}", arguments, connection=connection, retry=False
            )
        except OperationalError:
            return False
    return True


def test_hanging_broker_does_not_block_callers() -> None:
    limits = {**app.conf.broker_transport_options, "socket_timeout": 0.2}
    assert app.conf.broker_transport_options["socket_timeout"] <= 2
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"redis://127.0.0.1:{hanging.getsockname()[1]}"
        started_at = time.monotonic()
        with (
            Connection(url, transport_options=limits) as connection,
            pytest.raises(OperationalError, match="Timeout"),
        ):
            app.send_task("anything", connection=connection)
    assert time.monotonic() - started_at < TIMEOUT_SECONDS


def child(project: Project, name: str) -> ChildRecord | None:
    found = {child.name: child for child in project.run_record.children}
    return found.get(name)


def kill(project: Project, name: str) -> Callable[[], bool]:
    """Kill a child; return a function that checks for its replacement."""
    killed = child(project, name)
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)

    def is_replaced() -> bool:
        successor = child(project, name)
        return successor is not None and successor.pid not in (None, killed.pid)

    return is_replaced


def test_jobs_run_after_any_process_is_killed(served: Project) -> None:
    status = served.call("status")
    assert all(f"  {name:<6}  pid " in status for name in NAMES)
    assert send(served, "write_file", "sent")
    until((served.root / "sent").exists)
    until((served.root / "tick").exists)

    until(kill(served, "worker"))
    # A message that a killed process held comes again only after minutes.
    name = "sent to the second worker"
    until(lambda: send(served, "write_file", name) and (served.root / name).exists())

    until(kill(served, "broker"))
    other = "sent to the second broker"
    until(lambda: send(served, "write_file", other) and (served.root / other).exists())

    until(kill(served, "beat"))
    (served.root / "tick").unlink()
    until((served.root / "tick").exists)

    status = served.call("status")
    for name in ("worker", "broker", "beat"):
        assert re.search(rf"  {name} +pid \d+, up .*, 1 restart\n", status), status

    with served.config.open("a") as file:
        file.write("  - {name: newcomer, provider: openai, model: gpt-test}\n")
    until(lambda: send(served, "write_agents") and (served.root / "newcomer").exists())

    assert send(served, "write_slowly", "slow", 0.5)
    until((served.root / "slow-started").exists)
    output = end(served.attached[0])
    assert (served.root / "slow-ended").exists()
    # Celery would print this without the log's format.
    assert "Warm shutdown" not in output
    assert served.attached[0].returncode == 0
    assert served.processes() == []


def test_children_end_with_the_supervisor(served: Project) -> None:
    served.attached[0].kill()
    until(lambda: served.processes() == [])
    assert served.attached[0].wait() == -signal.SIGKILL


def test_no_background_processes_without_a_broker(settings, monkeypatch) -> None:
    settings.COULISSE_PROCESSES = frozenset({"web", "worker", "beat"})
    settings.COULISSE_OWNS_BROKER = True
    monkeypatch.setattr(background_processes, "find_valkey", lambda: None)
    assert background_processes.plan_background() == BackgroundPlan(
        (), None, lacks_broker=True
    )
    settings.COULISSE_OWNS_BROKER = False  # REDIS_URL names a broker
    assert background_processes.plan_background() == BackgroundPlan(
        ("worker", "beat"), None
    )
    settings.COULISSE_PROCESSES = frozenset({"web"})
    assert background_processes.plan_background() == BackgroundPlan((), None)


def test_valkey_is_found_in_its_wheel() -> None:
    found = background_processes.find_valkey()
    assert found is not None
    assert os.access(found, os.X_OK)


def test_endless_job_is_cancelled_at_shutdown(monkeypatch, caplog) -> None:
    ended: list[int] = []
    monkeypatch.setattr(stop_limits, "CLEANUP_SECONDS", 0)
    config = SimpleNamespace(get=lambda section: TasksConfig(drain_seconds=0))
    monkeypatch.setattr(worker.live, "current", lambda: config)
    monkeypatch.setattr(worker.logging, "shutdown", lambda: None)
    monkeypatch.setattr(os, "_exit", ended.append)
    worker.limit_drain()
    until(lambda: ended == [0])
    assert "did not finish within 0 s; exiting" in caplog.text


def test_doctor_finds_all_processes_alive(served: Project) -> None:
    # The worker may still be starting.
    until(lambda: served.run("doctor").returncode == 0)
    output = served.run("doctor").stdout
    for line in ("server: pid", "broker: Valkey", "workers: 1 alive", "beat: alive"):
        assert f"ok       {line}" in output
