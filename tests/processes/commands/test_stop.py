"""`stop`, also of servers that have ended or do not end."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from processes.errors import AlreadyRunning, ServerStillRunning
from processes.server import shutdown
from processes.supervision import orphan_cleanup, pidfile, run_state
from processes.supervision.pidfile import PidFile
from processes.supervision.run_state import RunRecord
from processes.supervision.state_directory import StateDir
from tests.processes.conftest import TIMEOUT_SECONDS

PRINT_FROZEN = """
import atexit, gc, runpy, sys
atexit.register(lambda: print("frozen:", gc.get_freeze_count() > 0))
sys.argv = ["manage.py", "help"]
runpy.run_path("manage.py", run_name="__main__")
"""


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path)


def run(pid: int) -> RunRecord:
    return RunRecord(
        pid=pid,
        config="coulisse.yaml",
        url="http://localhost:8421",
        local_model_url=None,
        is_detached=True,
        is_serving=True,
        children=(),
    )


def test_start_is_blocked_while_stop_cleans_up(state: StateDir, monkeypatch) -> None:
    state.pid.write_text("1\n")
    run_state.write_record(state.record, run(1))
    monkeypatch.setattr(pidfile, "LOCK_TIMEOUT_SECONDS", 0.05)
    steps = []

    def start_now(step: str) -> None:
        steps.append(step)
        with pytest.raises(AlreadyRunning):
            PidFile(state.pid).acquire()

    unlink = Path.unlink
    monkeypatch.setattr(
        orphan_cleanup, "end_processes", lambda children: start_now("end")
    )
    monkeypatch.setattr(
        Path,
        "unlink",
        lambda path, missing_ok=False: (
            start_now(path.name),
            unlink(path, missing_ok=missing_ok),
        )[1],
    )
    assert shutdown.stop_server(state, force=False) is None
    assert steps == ["end", "processes.json", "coulisse.pid"]
    assert list(state.root.iterdir()) == []


def test_server_started_meanwhile_keeps_its_files(state: StateDir, monkeypatch) -> None:
    monkeypatch.setattr(pidfile, "LOCK_TIMEOUT_SECONDS", 0.05)
    lock = PidFile(state.pid)
    lock.acquire()
    run_state.write_record(state.record, run(os.getpid()))
    shutdown.clean_up(state)
    assert pidfile.holder_pid(state.pid) == os.getpid()
    assert run_state.read_record(state.record) == run(os.getpid())
    lock.release()


@pytest.mark.parametrize(
    ("force", "expected"),
    [
        (False, r"still runs after 0 s: run `stop --force`$"),
        (True, r"killed .* after 5 s: check"),
    ],
)
def test_stop_suggests_the_next_step(
    state: StateDir, monkeypatch, force: bool, expected: str
) -> None:
    monkeypatch.setattr(shutdown, "_send", lambda pid, number: None)
    monkeypatch.setattr(orphan_cleanup, "wait_for_end", lambda servers, seconds: False)
    monkeypatch.setattr(shutdown, "ANSWER_SECONDS", 0.0)
    lock = PidFile(state.pid)
    lock.acquire()
    with pytest.raises(ServerStillRunning, match=expected):
        shutdown.stop_server(state, force=force)
    lock.release()


@pytest.fixture
def served(state: StateDir, settings, monkeypatch) -> Iterator[list[bool]]:
    """A running server of `coulisse.yaml`; collects the `force` of each stop."""
    monkeypatch.chdir(state.root)
    settings.COULISSE_STATE_DIR = state.root
    settings.COULISSE_CONFIG = state.root / "coulisse.yaml"
    served = replace(run(os.getpid()), config=str(state.root / "coulisse.yaml"))
    run_state.write_record(state.record, served)
    stopped: list[bool] = []
    monkeypatch.setattr(
        shutdown,
        "stop_server",
        lambda state, *, force, report: stopped.append(force) or 1,
    )
    lock = PidFile(state.pid)
    lock.acquire()
    yield stopped
    lock.release()


def test_stop_refuses_the_server_of_another_yaml(served: list[bool]) -> None:
    with pytest.raises(CommandError, match=r"serves \./coulisse.yaml, not \./b.yaml"):
        call_command("stop", config="b.yaml")
    assert served == []
    call_command("stop", config="b.yaml", force=True)
    call_command("stop", config="../" + Path.cwd().name + "/coulisse.yaml")
    call_command("stop")
    assert served == [True, False, False]


@pytest.mark.database
@pytest.mark.usefixtures("database")
def test_restart_refuses_the_server_of_another_yaml(served: list[bool]) -> None:
    Path("b.yaml").write_text(
        "agents: [{name: a, provider: p, model: m}]\n"
        "providers: {p: {kind: openai, api_key: k}}\n"
    )
    with pytest.raises(CommandError, match=r"serves \./coulisse.yaml, not \./b.yaml"):
        call_command("restart", config="b.yaml")
    assert served == []


def test_status_names_the_served_yaml(served: list[bool], capsys) -> None:
    call_command("status", config="b.yaml")
    output = capsys.readouterr().out
    assert "serves another YAML than ./b.yaml\n  config: ./coulisse.yaml\n" in output
    call_command("status", config="coulisse.yaml")
    assert "another" not in capsys.readouterr().out


def test_stop_without_a_server_leaves_no_files(state: StateDir) -> None:
    assert shutdown.stop_server(state, force=False) is None
    assert list(state.root.iterdir()) == []


def test_exiting_command_freezes_the_garbage_collector() -> None:
    """A last collection of all that Django loads would take half a second."""
    completed = subprocess.run(
        [sys.executable, "-c", PRINT_FROZEN],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert completed.stdout.splitlines()[-1] == "frozen: True"
