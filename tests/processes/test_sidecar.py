"""One sidecar: when it starts again, how it ends, and how its hanging is noticed."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from processes.config import SidecarConfig
from processes.sidecar_control import sidecar_process as sidecars
from processes.sidecar_control.sidecar_process import SidecarProcess
from processes.supervision import process_groups as groups_of
from processes.supervision.process_groups import ProcessGroups
from tests.processes.conftest import PATIENCE_SECONDS


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, and fail when it does not come true."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class Stage:
    """A sidecar that runs, what it said, and where it writes."""

    def __init__(self, groups: ProcessGroups, folder: Path, caplog) -> None:
        self._groups = groups
        self.folder = folder
        self._caplog = caplog
        self.tasks: list[asyncio.Task[None]] = []

    def run(self, script: str = "", **fields: Any) -> SidecarProcess:
        """Keep a script of the shell running."""
        given = {"command": "/bin/sh", "args": ("-c", script), **fields}
        config = SidecarConfig(name="bridge", cwd=str(self.folder), **given)
        program = sidecars.sidecar_program(config, dict(os.environ))
        self.sidecar = SidecarProcess(config, program, self._groups, changed=self._note)
        self.states: list[str] = []
        self.tasks.append(asyncio.create_task(self.sidecar.run()))
        return self.sidecar

    def _note(self) -> None:
        self.states.append(self.sidecar.record.state)

    @property
    def said(self) -> str:
        """Everything that was logged."""
        return "\n".join(record.getMessage() for record in self._caplog.records)

    def there(self, name: str) -> bool:
        """Say whether the script has written a file."""
        path = self.folder / name
        return path.exists() and path.read_text() != ""

    def is_gone(self, name: str) -> bool:
        """Say whether the process is whose pid the script has written."""
        try:
            process = psutil.Process(int((self.folder / name).read_text()))
            return bool(process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    async def over(self) -> None:
        """Wait until it has ended for good."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.tasks[-1]

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def stage(tmp_path: Path, caplog, monkeypatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(sidecars, "MIN_BACKOFF_SECONDS", 0.01)
    caplog.set_level(logging.INFO)
    with ProcessGroups() as groups:
        stage = Stage(groups, tmp_path, caplog)
        yield stage
        await stage.stop()


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
    stage: Stage, restart: str, script: str, state: str, reason: str
) -> None:
    sidecar = stage.run(script, restart=restart)
    await stage.over()
    record = sidecar.record
    assert (record.state, record.reason, record.pid) == (state, reason, None)
    assert f"sidecar=bridge {reason}; it is not started again" in stage.said


@pytest.mark.parametrize(
    ("restart", "script"),
    [("always", "exit 0"), ("always", "exit 3"), ("on-failure", "exit 3")],
)
async def test_sidecar_is_restarted_by_its_policy(
    stage: Stage, restart: str, script: str
) -> None:
    sidecar = stage.run(f"echo {script}; {script}", restart=restart)
    await until(lambda: sidecar.record.restarts == 2)
    assert stage.states[:4] == ["running", "waiting", "running", "waiting"]
    assert f"sidecar=bridge stream=stdout {script}\n" in stage.said


async def test_restart_backoff_grows_to_a_limit(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(sidecars, "MAX_BACKOFF_SECONDS", 0.02)
    sidecar = stage.run("exit 3")
    await until(lambda: sidecar.record.restarts == 3)
    starts = [line for line in stage.said.splitlines() if "starting it again" in line]
    pauses = [line.rpartition(" in ")[2] for line in starts]
    assert pauses[:3] == ["0.01 s", "0.02 s", "0.02 s"]


async def test_stable_run_resets_the_backoff(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(sidecars, "STABLE_SECONDS", 0)
    sidecar = stage.run("exit 3")
    await until(lambda: sidecar.record.restarts == 3)
    assert "in 0.01 s" in stage.said
    assert "in 0.02 s" not in stage.said


async def test_missing_command_is_retried(stage: Stage) -> None:
    sidecar = stage.run(command="no-such-thing", args=())
    await until(lambda: sidecar.record.restarts == 2)
    assert "'no-such-thing' is not there, or cannot be run; starting it" in stage.said
    assert sidecar.record.pid is None


async def test_missing_command_without_restart_has_failed(stage: Stage) -> None:
    sidecar = stage.run(command="no-such-thing", args=(), restart="never")
    await stage.over()
    assert sidecar.record.state == "failed"


async def test_unexecutable_command_states_the_reason(stage: Stage) -> None:
    (stage.folder / "script").write_bytes(b"\x7fELF nonsense")
    (stage.folder / "script").chmod(0o700)
    stage.run(command="./script", args=(), restart="never")
    await stage.over()
    assert "Exec format error" in stage.said
    stage.run(command="/bin/sh", args=("-c", "\0"), restart="never")
    await stage.over()
    assert "cannot be started: embedded null byte" in stage.said


async def test_sidecar_can_end_gracefully_with_its_children(stage: Stage) -> None:
    script = """
    trap 'sleep 0.1; echo gently > ended; exit' TERM
    sh -c 'trap "" INT; echo $$ > child; sleep 60' &
    echo begun > begun; while :; do wait; done
    """
    stage.run(script)
    await until(lambda: stage.there("begun") and stage.there("child"))
    await stage.stop()
    assert stage.there("ended")
    assert stage.is_gone("child")
    assert "killed" not in stage.said


async def test_sidecar_ignoring_sigterm_is_killed(stage: Stage) -> None:
    script = "trap '' TERM; sleep 60 & echo $! > child; while :; do sleep 60; done"
    sidecar = stage.run(script, stop_seconds=0.05)
    await until(lambda: stage.there("child"))
    pid = sidecar.record.pid
    await stage.stop()
    assert "sidecar=bridge did not end within 0.05 s; killed" in stage.said
    assert not psutil.pid_exists(pid)
    await until(lambda: stage.is_gone("child"))


async def test_children_of_an_ended_sidecar_are_ended(stage: Stage) -> None:
    script = """
    sh -c 'trap "" TERM; echo $$ > child; sleep 60' &
    until [ -s child ]; do sleep 0.01; done; exit 0
    """
    stage.run(script, stop_seconds=0.05)
    await stage.over()
    await until(lambda: stage.is_gone("child"))
    assert "did not end" not in stage.said


async def test_last_output_is_logged(stage: Stage) -> None:
    stage.run("printf 'no line end' >&2; exit 3", restart="never")
    await stage.over()
    assert "stream=stderr no line end" in stage.said


async def test_endless_output_does_not_block(stage: Stage, monkeypatch) -> None:
    # 10 MB of lines, and 20 MB that are one.
    script = "yes a line of some bridge | head -c 10000000; head -c 20000000 /dev/zero"
    before = psutil.Process().memory_info().rss
    stage.run(script, restart="never")
    await stage.over()
    assert psutil.Process().memory_info().rss - before < 10_000_000
    assert "lines a second" in stage.said
    assert len(stage.said) < 200_000


async def test_sidecar_has_its_own_environment_and_no_stdin(stage: Stage) -> None:
    fields = {"env": {"TOKEN": "of-the-bridge"}, "restart": "never"}
    stage.run("echo $TOKEN in $PWD; read x || echo nothing to read", **fields)
    await stage.over()
    assert f"stream=stdout of-the-bridge in {stage.folder}\n" in stage.said
    assert "stream=stdout nothing to read" in stage.said


HEALTH = {"command": "/bin/sh", "interval_seconds": 0.1, "failures": 2}


async def test_unhealthy_sidecar_is_restarted(stage: Stage) -> None:
    health = {**HEALTH, "args": ("-c", "exit 7")}
    sidecar = stage.run("sleep 60", health=health)
    await until(lambda: sidecar.record.restarts == 1)
    for said in (
        "is not well, 1 of 2: its health check ended with exit code 7",
        "is not well, 2 of 2: its health check ended with exit code 7",
        "was not well: its health check ended with exit code 7; starting it again",
    ):
        assert f"sidecar=bridge {said}" in stage.said


async def test_hanging_health_check_is_a_failure(stage: Stage) -> None:
    health = {"args": ("-c", "sleep 60"), "timeout_seconds": 0.1, "failures": 1}
    before = {*psutil.Process().children()}
    sidecar = stage.run("sleep 60", health={**HEALTH, **health}, restart="never")
    await stage.over()
    assert sidecar.record.reason == (
        "was not well: its health check took more than 0.1 s"
    )
    assert sidecar.record.state == "failed"
    # Nor is the check left, which may have been ended before it did anything.
    await until(lambda: {*psutil.Process().children()} <= before)


async def test_only_consecutive_health_failures_count(stage: Stage) -> None:
    # It is well each second time it is asked.
    args = (
        "-c",
        "if [ -e ill ]; then rm ill; else echo > ill; echo >> asked; exit 1; fi",
    )
    sidecar = stage.run("sleep 60", health={**HEALTH, "args": args})
    await until(lambda: stage.there("asked") and stage.said.count("1 of 2") >= 2)
    assert "2 of 2" not in stage.said
    assert sidecar.record.state == "running"


async def test_missing_health_command_ends_no_sidecar(stage: Stage) -> None:
    health = {**HEALTH, "command": "no-such-thing", "failures": 1}
    sidecar = stage.run("sleep 60", health=health)
    said = "cannot be asked whether it is well: its command 'no-such-thing' is not"
    await until(lambda: said in stage.said)
    await asyncio.sleep(0.25)
    assert stage.said.count(said) == 1
    assert sidecar.record.state == "running"


async def test_exit_during_a_health_check_is_noticed(stage: Stage) -> None:
    args = ("-c", "until [ -s pid ]; do sleep 0.01; done; kill $(cat pid); sleep 60")
    health = {**HEALTH, "args": args, "timeout_seconds": 60}
    stage.run("echo $$ > pid; sleep 60 & wait", health=health, restart="never")
    await stage.over()
    assert "ended with signal SIGTERM" in stage.said


async def test_sidecar_runs_without_kernel_support(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert groups_of._with_parent_death_signal("sh", ("-c",)) == ["sh", "-c"]
    stage.run("echo as ever", restart="never")
    await stage.over()
    assert "stream=stdout as ever" in stage.said
