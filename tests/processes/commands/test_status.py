"""`status`, for operators, init scripts and container platforms."""

import math
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import call_command

from processes.server import health_probe
from processes.supervision import run_state
from processes.supervision.pidfile import PidFile
from processes.supervision.run_state import ChildRecord, RunRecord
from processes.supervision.state_directory import StateDir

RUN = RunRecord(
    pid=os.getpid(),
    config="coulisse.yaml",
    url="http://localhost:8423",
    local_model_url=None,
    is_detached=True,
    is_serving=True,
    children=(),
)


@pytest.fixture
def state(tmp_path: Path, settings) -> Iterator[StateDir]:
    """The state directory of a running server."""
    settings.COULISSE_STATE_DIR = tmp_path
    state = StateDir(tmp_path)
    run_state.write_record(state.record, RUN)
    lock = PidFile(state.pid)
    lock.acquire()
    yield state
    lock.release()


@pytest.fixture
def probed(monkeypatch) -> list[str]:
    """The probed addresses; none answers."""
    urls: list[str] = []
    monkeypatch.setattr(
        health_probe, "is_answering", lambda url, *, seconds: urls.append(url) or False
    )
    return urls


def test_status_ready_follows_the_readiness_probe(state, monkeypatch, capsys) -> None:
    monkeypatch.setattr(health_probe, "is_answering", lambda url, *, seconds: True)
    call_command("status", ready=True)
    assert capsys.readouterr().out.startswith(f"running (pid {RUN.pid})\n")


def test_status_running_is_not_ready(state, probed, capsys) -> None:
    with pytest.raises(SystemExit, match="1"):
        call_command("status", ready=True)
    assert probed == ["http://localhost:8423/health/ready"]
    assert capsys.readouterr().out.startswith(f"running (pid {RUN.pid}), not ready\n")


def test_status_starting_is_not_ready(state, probed, capsys) -> None:
    state.record.unlink()
    with pytest.raises(SystemExit, match="1"):
        call_command("status", ready=True)
    assert capsys.readouterr().out == f"starting (pid {RUN.pid}), not ready\n"


def test_status_stopped_is_not_ready(tmp_path, settings, probed) -> None:
    settings.COULISSE_STATE_DIR = tmp_path
    with pytest.raises(SystemExit, match="3"):
        call_command("status", ready=True)
    assert probed == []


def test_status_without_ready_option_sends_no_probe(state, probed) -> None:
    call_command("status")
    assert probed == []


def test_status_shows_the_next_restart_of_an_ended_child(state, capsys) -> None:
    due_at = time.time() + 70
    reason = "ended with exit code 1"
    waiting = ChildRecord("beat", "waiting", 6, reason, due_at=due_at)
    run_state.write_record(state.record, replace(RUN, children=(waiting,)))
    call_command("status")
    line = r"  beat  restarting in (\d+) s, 6 restarts: ended with exit code 1\n"
    match = re.search(line, capsys.readouterr().out)
    assert match is not None
    assert math.ceil(due_at - time.time()) <= int(match[1]) <= 70
