"""`start`, in the background and in the foreground."""

import json
import re
import socket
import subprocess
import sys
from typing import Any

import pytest
from django.core.management import CommandError

from processes.server import background_server
from processes.supervision import run_state
from processes.supervision.run_state import ChildRecord, RunRecord
from tests.processes.conftest import (
    MANAGE,
    MANAGE_WITHOUT_VALKEY,
    TIMEOUT_SECONDS,
    Project,
    end,
)

BANNER = """\
  coulisse 0.1.0

  Proxy   →  http://localhost:{port}/v1
  Admin   →  http://localhost:{port}/admin/

  Memory     sqlite at .coulisse/coulisse-memory.db; user_state: disabled (history only)
  Auth       proxy: open · admin: this machine only

  Agents (2)
    assistant  openai / gpt-test
    pm         openai / gpt-other
"""


def test_start_serves_reports_and_stops(project: Project) -> None:
    project.environment["COULISSE_LOG_FORMAT"] = "json"
    started = project.run("start")
    assert (started.returncode, started.stderr) == (0, "")
    assert BANNER.format(port=project.port) in started.stdout
    assert project.get("/health/ready")

    run = project.run_record
    assert project.call("status").startswith(
        f"running (pid {run.pid})\n"
        "  config: ./coulisse.yaml\n"
        "  log:    ./.coulisse/coulisse.log\n"
        f"  url:    http://localhost:{project.port}/v1\n"
        f"  web-1  pid {run.children[0].pid}, up 0m "
    )
    assert project.call("start") == f"already running (pid {run.pid})\n"

    stopped = project.run("stop")
    assert (stopped.returncode, stopped.stdout) == (0, f"stopped (pid {run.pid})\n")
    assert project.processes() == []
    assert not project.state.pid.exists()
    assert not project.state.record.exists()
    assert project.state.root.stat().st_mode & 0o777 == 0o700
    logged = [json.loads(line) for line in project.state.log.read_text().splitlines()]
    served = (
        f"serving {project.config} at http://localhost:{project.port} (pid {run.pid})"
    )
    assert [line["message"] for line in logged].count(served) == 1


def test_start_refuses_invalid_yaml_with_every_problem(project: Project) -> None:
    project.config.write_text("agents:\n  - {name: a, provider: nowhere}\ntypo: 1\n")
    with pytest.raises(CommandError) as refused:
        project.call("start")
    for part in ("providers", "model", "typo"):
        assert part in str(refused.value)
    assert not project.state.root.exists()


def test_start_reports_a_taken_port(project: Project) -> None:
    with socket.create_server(("127.0.0.1", project.port)):
        refused = project.run("start")
    assert refused.returncode == 1
    assert f"port {project.port} is already in use" in refused.stderr
    assert "server.port" in refused.stderr
    assert project.processes() == []


def test_start_fails_when_the_application_cannot_load(project: Project) -> None:
    project.environment["SMALL_APP"] = "broken"
    failed = project.run("start")
    assert failed.returncode == 1
    assert "this application is broken" in failed.stderr
    assert "web-1 ended 2 times" in failed.stderr
    assert project.processes() == []


def test_start_separates_servers_by_yaml(project: Project) -> None:
    server = project.serve()
    project.config.rename(project.root / "other.yaml")
    with pytest.raises(
        CommandError, match=rf"already running \(pid {server.pid}\) with"
    ):
        project.call("start", config="other.yaml")


def test_start_fails_at_the_time_limit(project: Project) -> None:
    project.environment["SMALL_APP"] = "never ready"
    failed = project.run("start", "--timeout", "1")
    assert failed.returncode == 1
    assert "did not answer within 1 s and was stopped while" in failed.stderr
    assert project.processes() == []


def test_start_reports_what_it_waits_for(project: Project, monkeypatch) -> None:
    monkeypatch.setattr(background_server, "REPORT_INTERVAL_SECONDS", 0.1)
    project.state.prepare()
    reports: list[str] = []
    with subprocess.Popen(["sleep", "60"]) as process:

        def report(line: str) -> None:
            reports.append(line)
            match len(reports):
                case 1:
                    run(children=(ChildRecord("web-1", "running", pid=process.pid),))
                case 2:
                    reason = "ended with exit code 3"
                    run(children=(ChildRecord("web-1", "waiting", 1, reason),))
                case 3:
                    process.kill()

        def run(**children: Any) -> None:
            known = {"config": "c", "url": "u", "local_model_url": None}
            states = {"is_detached": True, "is_serving": False}
            found = RunRecord(process.pid, **known, **states, **children)
            run_state.write_record(project.state.record, found)

        limit = TIMEOUT_SECONDS
        assert background_server._wait(process, project.state, limit, report) is None
    assert [re.sub(r"after \d+ s", "soon", line) for line in reports] == [
        "soon waiting for the migrations",
        "soon waiting for an answer from web-1",
        "soon waiting for a restart: web-1 ended with exit code 3",
    ]


def test_parallel_starts_run_one_server(project: Project) -> None:
    starts = [
        subprocess.Popen(
            [sys.executable, MANAGE, "start"],
            cwd=project.root,
            env=project.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [start.communicate(timeout=TIMEOUT_SECONDS)[0] for start in starts]
    assert [start.returncode for start in starts] == [0, 0], outputs
    pid = project.run_record.pid
    refusals = [f"already running (pid {pid})" in output for output in outputs]
    banners = ["Proxy" in output for output in outputs]
    assert (sorted(refusals), sorted(banners)) == ([False, True], [False, True])
    assert project.run("stop", "--force").returncode == 0
    assert project.processes() == []
    assert not project.state.pid.exists()


def test_start_serves_the_real_application_without_a_broker(project: Project) -> None:
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    del project.environment["COULISSE_PROCESSES"]
    project.write(extra=", worker_threads: 2")
    process = project.serve(MANAGE_WITHOUT_VALKEY)
    assert '"assistant"' in project.get("/v1/models")
    assert [child.name for child in project.run_record.children] == ["web-1", "web-2"]
    assert "no broker: background work waits" in project.call("status")
    output = end(process)
    assert "Background waiting: no broker" in output
    assert "  Agents (2)" in output
    assert process.returncode == 0
