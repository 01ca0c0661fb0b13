"""One child process: its record after an exit, its heartbeat, and its environment."""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from core.child_processes.program import Program
from processes.supervision import heartbeat
from processes.supervision.child import (
    Child,
    ChildSpec,
    base_environment,
    outer_environment,
)
from processes.supervision.heartbeat import HeartbeatSender

BACKOFF_SECONDS = 60


def start(script: str, **fields: object) -> Child:
    words = ("-I", "-c", script)
    program = Program(sys.executable, words, Path.cwd(), os.environ, is_ours=True)
    spec = ChildSpec(
        name="beat", program=program, min_backoff_seconds=BACKOFF_SECONDS, **fields
    )
    child = Child(spec, changed=lambda: None)
    child.start()
    return child


async def until_state(child: Child, state: str) -> None:
    while child.record.state != state:  # noqa: ASYNC110 (nothing announces it)
        await asyncio.sleep(0.01)


async def test_waiting_child_records_its_exit(tmp_path: Path) -> None:
    may_end = tmp_path / "may end"
    script = f"""
import pathlib, time
while not pathlib.Path({str(may_end)!r}).exists():
    time.sleep(0.01)
raise SystemExit(3)
"""
    child = start(script, max_backoff_seconds=BACKOFF_SECONDS)
    before = time.time()
    await until_state(child, "running")
    assert child.record.pid is not None
    may_end.touch()
    await until_state(child, "waiting")
    await asyncio.sleep(0.01)
    while child.record.restarts == 0:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    record = child.record
    assert (record.reason, record.restarts) == ("ended with exit code 3", 1)
    assert record.pid is None
    ended_at = record.due_at - BACKOFF_SECONDS
    assert before - 0.01 < ended_at < time.time() + 0.01
    await child.stop()


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS pins no process")
async def test_child_stays_on_its_core() -> None:
    core = max(os.sched_getaffinity(0))
    child = start("import time; time.sleep(60)", core=core)
    await until_state(child, "running")
    assert os.sched_getaffinity(child.record.pid) == {core}
    await child.stop()


async def test_child_without_heartbeats_is_restarted(monkeypatch, caplog) -> None:
    monkeypatch.setattr(heartbeat, "INTERVAL_SECONDS", 0.02)
    with tempfile.TemporaryFile() as file:
        child = start(
            "import time; time.sleep(60)", health=heartbeat.health(file.fileno(), 1)
        )
        await until_state(child, "running")
        # It still starts.
        await asyncio.sleep(0.1)
        assert "unhealthy" not in caplog.text
        HeartbeatSender(file.fileno(), 1).beat()
        await until_state(child, "waiting")
        await child.stop()
    assert "beat was unhealthy: its event loop sends no heartbeat; rest" in caplog.text


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
