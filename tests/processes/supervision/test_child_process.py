"""One child process: its record after an exit, and its environment."""

import os
import sys
import time

from processes.supervision.child_process import (
    MIN_BACKOFF_SECONDS,
    ChildCommand,
    ChildProcess,
    base_environment,
    outer_environment,
)
from tests.processes.conftest import until


def test_waiting_child_records_its_exit() -> None:
    argv = (sys.executable, "-I", "-c", "raise SystemExit(3)")
    child = ChildProcess(ChildCommand("beat", argv, os.environ, ()))
    assert child.waiting_record(time.monotonic()) is None
    child.start(time.monotonic())
    assert child.waiting_record(time.monotonic()) is None
    before = time.time()
    until(lambda: child.reap(time.monotonic()))
    waiting = child.waiting_record(time.monotonic())
    assert waiting is not None
    assert (waiting.reason, waiting.restarts) == ("ended with exit code 3", 1)
    ended_at = waiting.due_at - MIN_BACKOFF_SECONDS
    assert before - 0.01 < ended_at < time.time() + 0.01


def test_sidecar_has_the_original_environment(monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/the/user")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
    environment = base_environment("/ours", "c.yaml")
    assert environment["PYTHONPATH"] == f"/ours{os.pathsep}/of/the/user"
    for name, value in {**environment, "COULISSE_PROCESS": "sidecars"}.items():
        monkeypatch.setenv(name, value)
    outer = outer_environment("/ours")
    assert outer["PYTHONPATH"] == "/of/the/user"
    assert not {"COULISSE_PROCESS", "DJANGO_SETTINGS_MODULE"} & outer.keys()
    monkeypatch.setenv("PYTHONPATH", "/ours")
    assert "PYTHONPATH" not in outer_environment("/ours")
