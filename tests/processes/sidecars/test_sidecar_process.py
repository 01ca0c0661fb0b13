"""One sidecar: its restarts, its end and its health check."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.child_processes.program import Program
from processes.config import SidecarConfig
from processes.sidecar_control import sidecar_process
from processes.supervision import child
from processes.supervision.child import Child
from tests.processes.conftest import TIMEOUT_SECONDS


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; fail after the time limit."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class SidecarRunner:
    """Runs a sidecar in a folder, with its log messages."""

    def __init__(self, folder: Path, caplog) -> None:
        self.folder = folder
        self._caplog = caplog
        self._started: list[Child] = []

    def run(self, script: str = "", **fields: Any) -> Child:
        """Run a shell script as a sidecar."""
        options = {"command": "/bin/sh", "args": ("-c", script), **fields}
        config = SidecarConfig(name="bridge", cwd=str(self.folder), **options)
        spec = sidecar_process.sidecar_spec(config, dict(os.environ))
        self.sidecar = Child(spec, changed=self._record_state)
        self.states: list[str] = []
        self.sidecar.start()
        self._started.append(self.sidecar)
        return self.sidecar

    def _record_state(self) -> None:
        self.states.append(self.sidecar.record.state)

    @property
    def log(self) -> str:
        """All log messages."""
        return "\n".join(record.getMessage() for record in self._caplog.records)

    def has_written(self, name: str) -> bool:
        """Return whether the script has written a file."""
        path = self.folder / name
        return path.exists() and path.read_text() != ""

    def has_ended(self, name: str) -> bool:
        """Return whether the process whose pid the script wrote has ended."""
        try:
            process = psutil.Process(int((self.folder / name).read_text()))
            return bool(process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    async def wait_for_end(self) -> None:
        """Wait until it has ended without a restart."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await asyncio.wait({self.sidecar.task})

    async def stop(self) -> None:
        for each in self._started:
            await each.stop()


@pytest.fixture
async def runner(tmp_path: Path, caplog, monkeypatch) -> AsyncIterator[SidecarRunner]:
    monkeypatch.setattr(sidecar_process, "MIN_BACKOFF_SECONDS", 0.01)
    caplog.set_level(logging.INFO)
    runner = SidecarRunner(tmp_path, caplog)
    yield runner
    await runner.stop()


@pytest.mark.parametrize(
    ("restart", "script", "state", "reason"),
    [
        ("on-failure", "exit 0", "finished", "ended with exit code 0"),
        ("never", "exit 0", "finished", "ended with exit code 0"),
        ("never", "exit 3", "failed", "ended with exit code 3"),
        ("never", "kill -9 $$", "failed", "ended with signal SIGKILL"),
    ],
)
async def test_sidecar_is_not_restarted_by_its_policy(
    runner: SidecarRunner, restart: str, script: str, state: str, reason: str
) -> None:
    sidecar = runner.run(script, restart=restart)
    await runner.wait_for_end()
    record = sidecar.record
    assert (record.state, record.reason, record.pid) == (state, reason, None)
    assert f"sidecar=bridge {reason}; not restarting" in runner.log


@pytest.mark.parametrize(
    ("restart", "script"),
    [("always", "exit 0"), ("always", "exit 3"), ("on-failure", "exit 3")],
)
async def test_sidecar_is_restarted_by_its_policy(
    runner: SidecarRunner, restart: str, script: str
) -> None:
    sidecar = runner.run(f"echo {script}; {script}", restart=restart)
    await until(lambda: sidecar.record.restarts == 2)
    assert runner.states[:4] == ["running", "waiting", "running", "waiting"]
    assert f"sidecar=bridge stream=stdout {script}\n" in runner.log


async def test_restart_backoff_grows_to_a_limit(
    runner: SidecarRunner, monkeypatch
) -> None:
    monkeypatch.setattr(sidecar_process, "MAX_BACKOFF_SECONDS", 0.02)
    sidecar = runner.run("exit 3")
    await until(lambda: sidecar.record.restarts == 3)
    starts = [line for line in runner.log.splitlines() if "restarting" in line]
    pauses = [line.rpartition(" in ")[2] for line in starts]
    assert pauses[:3] == ["0.01 s", "0.02 s", "0.02 s"]


async def test_stable_run_resets_the_backoff(
    runner: SidecarRunner, monkeypatch
) -> None:
    monkeypatch.setattr(child, "STABLE_SECONDS", 0)
    sidecar = runner.run("exit 3")
    await until(lambda: sidecar.record.restarts == 3)
    assert "in 0.01 s" in runner.log
    assert "in 0.02 s" not in runner.log


async def test_missing_command_is_retried(runner: SidecarRunner) -> None:
    sidecar = runner.run(command="no-such-thing", args=())
    await until(lambda: sidecar.record.restarts == 2)
    assert "'no-such-thing' is missing or not executable; restarting" in runner.log
    assert sidecar.record.pid is None


async def test_missing_command_without_restart_has_failed(
    runner: SidecarRunner,
) -> None:
    sidecar = runner.run(command="no-such-thing", args=(), restart="never")
    await runner.wait_for_end()
    assert sidecar.record.state == "failed"


async def test_unexecutable_command_states_the_reason(runner: SidecarRunner) -> None:
    (runner.folder / "script").write_bytes(b"\x7fELF nonsense")
    (runner.folder / "script").chmod(0o700)
    runner.run(command="./script", args=(), restart="never")
    await runner.wait_for_end()
    assert "Exec format error" in runner.log
    runner.run(command="/bin/sh", args=("-c", "\0"), restart="never")
    await runner.wait_for_end()
    assert "cannot start: embedded null byte" in runner.log


async def test_sidecar_can_end_gracefully_with_its_children(
    runner: SidecarRunner,
) -> None:
    script = """
    trap 'sleep 0.1; echo gently > ended; exit' TERM
    sh -c 'trap "" INT; echo $$ > child; sleep 60' &
    echo started > started; while :; do wait; done
    """
    runner.run(script)
    await until(lambda: runner.has_written("started") and runner.has_written("child"))
    await runner.stop()
    assert runner.has_written("ended")
    assert runner.has_ended("child")
    assert "killed" not in runner.log


async def test_sidecar_ignoring_sigterm_is_killed(runner: SidecarRunner) -> None:
    script = "trap '' TERM; sleep 60 & echo $! > child; while :; do sleep 60; done"
    sidecar = runner.run(script, stop_seconds=0.05)
    await until(lambda: runner.has_written("child"))
    pid = sidecar.record.pid
    await runner.stop()
    assert "sidecar=bridge did not end within 0.05 s; killed" in runner.log
    assert not psutil.pid_exists(pid)
    await until(lambda: runner.has_ended("child"))


async def test_children_of_an_ended_sidecar_are_ended(runner: SidecarRunner) -> None:
    script = """
    sh -c 'trap "" TERM; echo $$ > child; sleep 60' &
    until [ -s child ]; do sleep 0.01; done; exit 0
    """
    runner.run(script, stop_seconds=0.05)
    await runner.wait_for_end()
    await until(lambda: runner.has_ended("child"))
    assert "did not end" not in runner.log


async def test_last_output_is_logged(runner: SidecarRunner) -> None:
    runner.run("printf 'no line end' >&2; exit 3", restart="never")
    await runner.wait_for_end()
    assert "stream=stderr no line end" in runner.log


async def test_endless_output_does_not_block(
    runner: SidecarRunner, monkeypatch
) -> None:
    # 10 MB of lines, and 20 MB that are one.
    script = "yes a line of some bridge | head -c 10000000; head -c 20000000 /dev/zero"
    before = psutil.Process().memory_info().rss
    runner.run(script, restart="never")
    await runner.wait_for_end()
    assert psutil.Process().memory_info().rss - before < 10_000_000
    assert "lines a second" in runner.log
    assert len(runner.log) < 200_000


async def test_sidecar_has_its_own_environment_and_no_stdin(
    runner: SidecarRunner,
) -> None:
    fields = {"env": {"TOKEN": "of-the-bridge"}, "restart": "never"}
    runner.run("echo $TOKEN in $PWD; read x || echo nothing to read", **fields)
    await runner.wait_for_end()
    assert f"stream=stdout of-the-bridge in {runner.folder}\n" in runner.log
    assert "stream=stdout nothing to read" in runner.log


HEALTH = {"command": "/bin/sh", "interval_seconds": 0.1, "failures": 2}


async def test_unhealthy_sidecar_is_restarted(runner: SidecarRunner) -> None:
    health = {**HEALTH, "args": ("-c", "exit 7")}
    sidecar = runner.run("sleep 60", health=health)
    await until(lambda: sidecar.record.restarts == 1)
    for message in (
        "is unhealthy, 1 of 2: its health check ended with exit code 7",
        "is unhealthy, 2 of 2: its health check ended with exit code 7",
        "was unhealthy: its health check ended with exit code 7; restarting",
    ):
        assert f"sidecar=bridge {message}" in runner.log


async def test_hanging_health_check_is_a_failure(runner: SidecarRunner) -> None:
    health = {"args": ("-c", "sleep 60"), "timeout_seconds": 0.1, "failures": 1}
    before = {*psutil.Process().children()}
    sidecar = runner.run("sleep 60", health={**HEALTH, **health}, restart="never")
    await runner.wait_for_end()
    assert sidecar.record.reason == (
        "was unhealthy: its health check took more than 0.1 s"
    )
    assert sidecar.record.state == "failed"
    # The check has ended, too, possibly before it did anything.
    await until(lambda: {*psutil.Process().children()} <= before)


async def test_only_consecutive_health_failures_count(runner: SidecarRunner) -> None:
    # Every second check succeeds.
    args = (
        "-c",
        "if [ -e unhealthy ]; then rm unhealthy; else "
        "echo > unhealthy; echo >> checked; exit 1; fi",
    )
    sidecar = runner.run("sleep 60", health={**HEALTH, "args": args})
    await until(
        lambda: runner.has_written("checked") and runner.log.count("1 of 2") >= 2
    )
    assert "2 of 2" not in runner.log
    assert sidecar.record.state == "running"


async def test_missing_health_command_ends_no_sidecar(runner: SidecarRunner) -> None:
    health = {**HEALTH, "command": "no-such-thing", "failures": 1}
    sidecar = runner.run("sleep 60", health=health)
    message = "health check cannot start: its command 'no-such-thing' is missing"
    await until(lambda: message in runner.log)
    await asyncio.sleep(0.25)
    assert runner.log.count(message) == 1
    assert sidecar.record.state == "running"


async def test_exit_during_a_health_check_is_noticed(runner: SidecarRunner) -> None:
    args = ("-c", "until [ -s pid ]; do sleep 0.01; done; kill $(cat pid); sleep 60")
    health = {**HEALTH, "args": args, "timeout_seconds": 60}
    runner.run("echo $$ > pid; sleep 60 & wait", health=health, restart="never")
    await runner.wait_for_end()
    assert "ended with signal SIGTERM" in runner.log


async def test_sidecar_runs_without_kernel_support(
    runner: SidecarRunner, monkeypatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    program = Program("sh", ("-c",), Path.cwd(), os.environ)
    assert program.command_line() == [program.find(), "-c"]
    runner.run("echo as ever", restart="never")
    await runner.wait_for_end()
    assert "stream=stdout as ever" in runner.log
