"""All sidecars of a server: none is left running, and edits apply."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from config.loading import last_valid_copy, loader
from core.child_processes import process_identity
from processes import sidecars
from processes.sidecar_control import sidecar_records, sidecar_status
from processes.sidecar_control.sidecar_status import SidecarsNotRunning, SidecarUnknown
from processes.supervision.child import base_environment
from processes.supervision.run_state import ChildRecord
from tests.processes.conftest import (
    MANAGE,
    TIMEOUT_SECONDS,
    Project,
    end,
    is_alive,
    until,
)

SIDECAR = """
  - name: {name}
    command: /bin/sh
    args: [-c, "sleep 60 & echo $! > {name}.child; echo $$ > {name}.pid; {script}"]
"""
WAIT = "wait"
READY_FILE = "ready"
"""Exists once the script handles signals."""
END_GRACEFULLY = (
    "trap 'echo gently > ended; exit' TERM; "
    f"echo > {READY_FILE}; while :; do wait; done"
)


def write(project: Project, **scripts: str) -> None:
    """Write a YAML with sidecars that run shell scripts."""
    project.write()
    with project.config.open("a") as file:
        file.write("sidecars:\n")
        for name, script in scripts.items():
            file.write(SIDECAR.format(name=name, script=script))


def has_started(project: Project, name: str = "bridge") -> Callable[[], bool]:
    path = project.root / f"{name}.pid"
    return lambda: path.exists() and path.read_text() != ""


def sidecar_processes(project: Project, name: str = "bridge") -> list[psutil.Process]:
    """Return the processes of a sidecar: itself and its child."""
    until(has_started(project, name))
    texts = [(project.root / f"{name}.{one}").read_text() for one in ("pid", "child")]
    return [psutil.Process(int(text)) for text in texts]


def recorded_pids(project: Project) -> list[int | None]:
    """Return the pids that the next process would find."""
    record = sidecar_records.read_record(project.state.sidecars)
    return [] if record is None else [each.pid for each in record.sidecars]


def command_line(process: psutil.Process) -> list[str]:
    """Return the command line; none if the process has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def have_ended(processes: list[psutil.Process]) -> Callable[[], bool]:
    return lambda: not any(map(is_alive, processes))


class SidecarsProcess:
    """The process that runs sidecars, without a supervisor."""

    def __init__(self, project: Project, *words: str) -> None:
        project.state.prepare()
        parent_pipe, self.write_end = os.pipe()
        module = ("-m", "processes.sidecars", f"--parent-pipe={parent_pipe}")
        self.process = subprocess.Popen(
            [sys.executable, *(words or module)],
            cwd=project.root,
            env={
                **base_environment(str(Path(MANAGE).parent), str(project.config)),
                "COULISSE_PROCESS": "sidecars",
                **project.environment,
            },
            pass_fds=[parent_pipe],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        os.close(parent_pipe)
        project.attached.append(self.process)

    def end(self, number: int = signal.SIGTERM) -> str:
        return end(self.process, number)

    @property
    def guard(self) -> psutil.Process:
        until(lambda: bool(self.guards()))
        (guard,) = self.guards()
        return guard

    def guards(self) -> list[psutil.Process]:
        return [
            each
            for each in psutil.Process(self.process.pid).children()
            if "guard.py" in " ".join(command_line(each))
        ]


@pytest.fixture
def running(project: Project) -> Iterator[Callable[..., SidecarsProcess]]:
    started: list[SidecarsProcess] = []

    def run(*words: str) -> SidecarsProcess:
        started.append(SidecarsProcess(project, *words))
        return started[-1]

    yield run
    for each in started:
        os.close(each.write_end)


def test_sidecars_end_with_their_runner(project: Project, running) -> None:
    write(project, bridge=WAIT)
    killed = running()
    processes = sidecar_processes(project)
    guard = killed.guard
    killed.end(signal.SIGKILL)
    until(have_ended([*processes, guard]))
    assert not any(map(is_alive, [*processes, guard]))


def test_sidecars_end_when_runner_and_guard_are_killed(
    project: Project, running
) -> None:
    write(project, bridge=WAIT)
    killed = running()
    leader, child = sidecar_processes(project)
    guard = killed.guard
    until(lambda: recorded_pids(project) == [leader.pid])
    # Stopped, so that it starts no other guard.
    killed.process.send_signal(signal.SIGSTOP)
    guard.kill()
    killed.end(signal.SIGKILL)
    if sys.platform == "linux":
        until(have_ended([leader]))
    assert is_alive(child)
    # The next process finds the sidecar's child.
    for path in project.root.glob("bridge.*"):
        path.unlink()
    successor = running()
    until(have_ended([leader, child]))
    until(has_started(project))
    assert f"sidecar=bridge stopped (pid {leader.pid}), left" in successor.end()


def test_killed_guard_is_replaced(project: Project, running) -> None:
    write(project, bridge=WAIT)
    killed = running()
    processes = sidecar_processes(project)
    first = killed.guard
    first.kill()
    until(lambda: killed.guards() not in ([], [first]))
    killed.end(signal.SIGKILL)
    until(have_ended(processes))
    assert not any(map(is_alive, processes))


def test_sidecars_end_gracefully_without_the_supervisor(
    project: Project, running
) -> None:
    write(project, bridge=END_GRACEFULLY)
    orphaned = running()
    processes = sidecar_processes(project)
    until((project.root / READY_FILE).exists)
    os.close(orphaned.write_end)
    orphaned.write_end = os.open(os.devnull, os.O_RDONLY)
    orphaned.process.wait(timeout=TIMEOUT_SECONDS)
    assert (project.root / "ended").exists()
    assert have_ended(processes)()
    assert not project.state.sidecars.exists()


def test_config_edit_keeps_unchanged_sidecars(
    project: Project, running, settings
) -> None:
    write(project, unchanged=WAIT, removed=WAIT, changed=WAIT)
    server = running()
    unchanged, removed, changed = (
        sidecar_processes(project, name) for name in ("unchanged", "removed", "changed")
    )
    (project.root / "changed.pid").unlink()
    write(project, unchanged=WAIT, changed="sleep 59 & wait", added=WAIT)
    last_valid_copy.write_copy(project.config.read_bytes())  # As a web process does.
    until(has_started(project, "added"))
    until(has_started(project, "changed"))
    until(have_ended([*removed, *changed]))
    assert all(map(is_alive, unchanged))
    until(lambda: sidecar_names(project) == ["unchanged", "changed", "added"])
    server.end()
    assert have_ended(unchanged)()


def test_sidecar_can_be_restarted_on_request(
    project: Project, running, settings
) -> None:
    write(project, first=WAIT, second="echo a message >&2; exit 0")
    config = loader.load_file(project.config)
    project.state.prepare()
    with pytest.raises(SidecarsNotRunning):
        sidecar_status.request_restart(config, project.state, "first")
    sidecar_records.request_restart(
        project.state, "second"
    )  # Ignored, because no sidecar runs yet.
    server = running()
    before = sidecar_processes(project, "first")

    def status(index):
        return sidecar_status.list_sidecars(config, project.state)[index]

    until(lambda: status(1)["state"] == "finished" and status(1)["lines"])
    (printed,) = status(1)["lines"]
    assert printed["text"] == "a message"
    assert (status(0)["state"], status(0)["restarts"]) == ("running", 0)
    (project.root / "first.pid").unlink()
    for name in ("first", "second"):
        sidecar_status.request_restart(config, project.state, name)
    until(have_ended(before))
    after = sidecar_processes(project, "first")
    assert after[0].pid != before[0].pid
    until(lambda: status(0)["pid"] == after[0].pid)
    until(lambda: status(1)["lines"] not in ([], [printed]))
    assert sidecar_names(project) == ["first", "second"]
    with pytest.raises(SidecarUnknown):
        sidecar_status.request_restart(config, project.state, "third")
    assert server.end().count("restart requested") == 2
    assert status(0)["state"] == "unknown"
    assert not project.state.sidecar_lines.exists()


def test_sidecars_command_follows_config_edits(project: Project, running) -> None:
    write(project, bridge=WAIT)
    alone = running(MANAGE, "sidecars")
    before = sidecar_processes(project)
    (project.root / "bridge.pid").unlink()
    write(project, bridge="sleep 59 & wait")
    after = sidecar_processes(project)
    until(have_ended(before))
    assert "reloaded: sidecars: changed 'bridge'" in alone.end()
    assert have_ended(after)()
    assert alone.process.returncode == 0


def sidecar_names(project: Project) -> list[str]:
    record = sidecar_records.read_record(project.state.sidecars)
    return [] if record is None else [sidecar.name for sidecar in record.sidecars]


def test_sidecar_lines_are_json_without_secrets(project: Project, running) -> None:
    write(project, bridge="true")
    with project.config.open("a") as file:
        file.write(
            "    env: {BOT_TOKEN: q7Vd2mXw9Lr4TzK8bNf3HcYs}\n    restart: never\n"
        )
    text = project.config.read_text()
    text = text.replace(
        "true", "echo $BOT_TOKEN t9Xf4oZy1Nt6VbM2dPh5JeAu; printf '\\\\033[1m'"
    )
    project.config.write_text(
        text.replace("{base_url", "{api_key: t9Xf4oZy1Nt6VbM2dPh5JeAu, base_url")
    )
    project.environment["COULISSE_LOG_FORMAT"] = "json"
    server = running()
    until(lambda: has_state(project, "finished"))
    records = [json.loads(line) for line in server.end().splitlines()]
    lines = [line for line in records if line.get("stream")]
    assert [line["message"].partition(" stream=stdout ")[2] for line in lines] == [
        "[redacted] [redacted]",
        "\\x1b[1m",
    ]
    assert {(line["sidecar"], line["process"]) for line in lines} == {
        ("bridge", "sidecars")
    }


def has_state(project: Project, state: str) -> bool:
    first_record = sidecar_records.read_record(project.state.sidecars)
    return first_record is not None and all(
        each.state == state for each in first_record.sidecars
    )


def test_second_runner_is_refused(project: Project, running) -> None:
    write(project, bridge=WAIT)
    first = running()
    sidecar_processes(project)
    second = running().process
    assert (
        f"already running (pid {first.process.pid})"
        in second.communicate(timeout=TIMEOUT_SECONDS)[0]
    )
    assert second.returncode == 1


def test_server_starts_and_stops_its_sidecars(project: Project) -> None:
    project.environment["COULISSE_PROCESSES"] = "web,sidecars"
    write(project, bridge=END_GRACEFULLY)
    with project.config.open("a") as file:
        file.write("  - {name: broken, command: no-such-thing}\n")
    server = project.serve()
    processes = sidecar_processes(project)
    problem = "its command 'no-such-thing' is missing"
    until(lambda: problem in project.call("status"))
    bridge = f"    bridge  pid {processes[0].pid}, up 0m "
    until(lambda: bridge in project.call("status"))
    status = project.call("status")
    assert "    broken  restarting in " in status

    # Remove the files that the next process will write.
    until((project.root / READY_FILE).exists)
    (project.root / "bridge.pid").unlink()
    (project.root / READY_FILE).unlink()
    runner = next(c for c in project.run_record.children if c.name == "sidecars")
    os.kill(runner.pid, signal.SIGKILL)
    until(have_ended(processes))
    processes = sidecar_processes(project)
    until((project.root / READY_FILE).exists)
    until(lambda: ", 1 restart\n    bridge  pid" in project.call("status"))

    output = end(server)
    assert "  Sidecars (2)\n    bridge  /bin/sh, restart: on-failure\n" in output
    assert (project.root / "ended").exists()
    assert have_ended(processes)()
    assert server.returncode == 0
    assert project.processes() == []


def test_sidecars_end_with_the_supervisor(project: Project) -> None:
    project.environment["COULISSE_PROCESSES"] = "web,sidecars"
    write(project, bridge=WAIT)
    server = project.serve()
    processes = sidecar_processes(project)
    server.kill()
    until(have_ended(processes))
    until(lambda: project.processes() == [])
    assert server.wait() == -signal.SIGKILL


def test_reused_pid_is_not_killed(project: Project) -> None:
    project.state.prepare()
    with subprocess.Popen(["sleep", "60"], process_group=0) as other:
        created_at = process_identity.created_at(other.pid)
        for recorded in (created_at - 60, created_at):
            assert other.poll() is None
            orphan = ChildRecord(
                name="bridge",
                state="running",
                restarts=2,
                reason="",
                pid=other.pid,
                created_at=recorded,
                due_at=0,
            )
            sidecar_records.write_record(project.state.sidecars, os.getpid(), [orphan])
            sidecars.stop_orphans(project.state)
        assert other.wait() == -signal.SIGTERM
