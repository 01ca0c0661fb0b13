"""All sidecars of a server: none is left behind, edits apply, `status` tells."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from config.loading import last_valid_copy, loader
from processes import sidecars
from processes.management.commands.status import describe_sidecar, describe_sidecars
from processes.sidecar_control import restart_requests, sidecar_records, sidecar_status
from processes.sidecar_control.sidecar_records import SidecarRecord
from processes.sidecar_control.sidecar_status import SidecarsNotRunning, SidecarUnknown
from processes.supervision import orphan_cleanup
from processes.supervision.child_process import base_environment, outer_environment
from processes.supervision.run_state import ChildRecord
from tests.processes.conftest import (
    MANAGE,
    PATIENCE_SECONDS,
    Project,
    end,
    until,
)
from tests.processes.test_status import RUN

FAMILY = """
  - name: {name}
    command: /bin/sh
    args: [-c, "sleep 60 & echo $! > {name}.child; echo $$ > {name}.pid; {script}"]
"""
WAITS = "wait"
HEEDS = "heeds"
"""Is there once a signal would be heard."""
ENDS_GENTLY = (
    f"trap 'echo gently > ended; exit' TERM; echo > {HEEDS}; while :; do wait; done"
)


def write(project: Project, **scripts: str) -> None:
    """Give the project sidecars that run scripts of the shell."""
    project.write()
    with project.config.open("a") as file:
        file.write("sidecars:\n")
        for name, script in scripts.items():
            file.write(FAMILY.format(name=name, script=script))


def has_begun(project: Project, name: str = "bridge") -> Callable[[], bool]:
    path = project.root / f"{name}.pid"
    return lambda: path.exists() and path.read_text() != ""


def family(project: Project, name: str = "bridge") -> list[psutil.Process]:
    """Return a sidecar and what it started."""
    until(has_begun(project, name))
    texts = [(project.root / f"{name}.{one}").read_text() for one in ("pid", "child")]
    return [psutil.Process(int(text)) for text in texts]


def are_gone(processes: list[psutil.Process]) -> Callable[[], bool]:
    return lambda: not any(map(lives, processes))


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Running:
    """The process that runs sidecars, without its supervisor."""

    def __init__(self, project: Project, *words: str) -> None:
        project.state.prepare()
        lifeline, self.held = os.pipe()
        module = ("-m", "processes.sidecars", "--lifeline", str(lifeline))
        self.process = subprocess.Popen(
            [sys.executable, *(words or module)],
            cwd=project.root,
            env={
                **base_environment(str(Path(MANAGE).parent), str(project.config)),
                "COULISSE_PROCESS": "sidecars",
                **project.environment,
            },
            pass_fds=[lifeline],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        os.close(lifeline)
        project.attached.append(self.process)

    def end(self, number: int = signal.SIGTERM) -> str:
        return end(self.process, number)

    @property
    def guard(self) -> psutil.Process:
        until(lambda: bool(self.guards()))
        (found,) = self.guards()
        return found

    def guards(self) -> list[psutil.Process]:
        return [
            each
            for each in psutil.Process(self.process.pid).children()
            if lives(each) and "guard.py" in " ".join(each.cmdline())
        ]


@pytest.fixture
def running(project: Project) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def run(*words: str) -> Running:
        started.append(Running(project, *words))
        return started[-1]

    yield run
    for each in started:
        os.close(each.held)


def test_sidecars_end_with_their_runner(project: Project, running) -> None:
    write(project, bridge=WAITS)
    killed = running()
    family_of_it = family(project)
    guard = killed.guard
    killed.end(signal.SIGKILL)
    until(are_gone([*family_of_it, guard]))
    assert not any(map(lives, [*family_of_it, guard]))


def test_sidecars_end_when_runner_and_guard_are_killed(
    project: Project, running
) -> None:
    write(project, bridge=WAITS)
    killed = running()
    leader, child = family(project)
    guard = killed.guard
    # Stopped, so that no other takes its place.
    killed.process.send_signal(signal.SIGSTOP)
    guard.kill()
    killed.end(signal.SIGKILL)
    if sys.platform == "linux":
        until(are_gone([leader]))
    assert lives(child)
    # What it had started is found by the next.
    for path in project.root.glob("bridge.*"):
        path.unlink()
    successor = running()
    until(are_gone([leader, child]))
    until(has_begun(project))
    assert f"sidecar=bridge (pid {leader.pid}), left by a killed" in successor.end()


def test_killed_guard_is_replaced(project: Project, running) -> None:
    write(project, bridge=WAITS)
    killed = running()
    family_of_it = family(project)
    first = killed.guard
    first.kill()
    until(lambda: killed.guards() not in ([], [first]))
    killed.end(signal.SIGKILL)
    until(are_gone(family_of_it))
    assert not any(map(lives, family_of_it))


def test_sidecars_end_gracefully_without_the_supervisor(
    project: Project, running
) -> None:
    write(project, bridge=ENDS_GENTLY)
    orphaned = running()
    family_of_it = family(project)
    until((project.root / HEEDS).exists)
    os.close(orphaned.held)
    orphaned.held = os.open(os.devnull, os.O_RDONLY)
    orphaned.process.wait(timeout=PATIENCE_SECONDS)
    assert (project.root / "ended").exists()
    assert are_gone(family_of_it)()
    assert not project.state.sidecars.exists()


def test_config_edit_keeps_unchanged_sidecars(
    project: Project, running, settings
) -> None:
    write(project, stays=WAITS, goes=WAITS, differs=WAITS)
    server = running()
    stays, goes, differs = (
        family(project, name) for name in ("stays", "goes", "differs")
    )
    (project.root / "differs.pid").unlink()
    write(project, stays=WAITS, differs="sleep 59 & wait", comes=WAITS)
    last_valid_copy.write_copy(project.config.read_bytes())  # As a web process does.
    until(has_begun(project, "comes"))
    until(has_begun(project, "differs"))
    until(are_gone([*goes, *differs]))
    assert all(map(lives, stays))
    until(lambda: names(project) == ["stays", "differs", "comes"])
    server.end()
    assert are_gone(stays)()


def test_sidecar_can_be_restarted_on_request(
    project: Project, running, settings
) -> None:
    write(project, first=WAITS, second="echo no luck >&2; exit 0")
    config = loader.load_file(project.config)
    project.state.prepare()
    with pytest.raises(SidecarsNotRunning):
        sidecar_status.request_restart(config, project.state, "first")
    restart_requests.request_restart(
        project.state, "second"
    )  # Too early: it means nothing.
    server = running()
    before = family(project, "first")

    def told(index):
        return sidecar_status.list_sidecars(config, project.state)[index]

    until(lambda: told(1)["state"] == "finished" and told(1)["lines"])
    (printed,) = told(1)["lines"]
    assert printed["text"] == "no luck"
    assert (told(0)["state"], told(0)["restarts"]) == ("running", 0)
    (project.root / "first.pid").unlink()
    for name in ("first", "second"):
        sidecar_status.request_restart(config, project.state, name)
    until(are_gone(before))
    after = family(project, "first")
    assert after[0].pid != before[0].pid
    until(lambda: told(0)["pid"] == after[0].pid)
    until(lambda: told(1)["lines"] not in ([], [printed]))
    assert names(project) == ["first", "second"]
    with pytest.raises(SidecarUnknown):
        sidecar_status.request_restart(config, project.state, "third")
    assert server.end().count("is to start again") == 2
    assert told(0)["state"] == "unknown"
    assert not project.state.sidecar_lines.exists()


def test_sidecars_command_follows_config_edits(project: Project, running) -> None:
    write(project, bridge=WAITS)
    alone = running(MANAGE, "sidecars")
    before = family(project)
    (project.root / "bridge.pid").unlink()
    write(project, bridge="sleep 59 & wait")
    after = family(project)
    until(are_gone(before))
    assert "reloaded: sidecars: changed 'bridge'" in alone.end()
    assert are_gone(after)()
    assert alone.process.returncode == 0


def names(project: Project) -> list[str]:
    known = sidecar_records.read_record(project.state.sidecars)
    return [] if known is None else [each.name for each in known.sidecars]


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
    told = [json.loads(line) for line in server.end().splitlines()]
    lines = [line for line in told if line.get("stream")]
    assert [line["message"].partition(" stream=stdout ")[2] for line in lines] == [
        "[redacted] [redacted]",
        "\\x1b[1m",
    ]
    assert {(line["sidecar"], line["process"]) for line in lines} == {
        ("bridge", "sidecars")
    }


def has_state(project: Project, state: str) -> bool:
    known = sidecar_records.read_record(project.state.sidecars)
    return known is not None and all(each.state == state for each in known.sidecars)


def test_second_runner_is_refused(project: Project, running) -> None:
    write(project, bridge=WAITS)
    first = running()
    family(project)
    second = running().process
    assert (
        f"already running (pid {first.process.pid})"
        in second.communicate(timeout=PATIENCE_SECONDS)[0]
    )
    assert second.returncode == 1


def test_server_starts_and_stops_its_sidecars(project: Project) -> None:
    project.environment["COULISSE_PROCESSES"] = "web,sidecars"
    write(project, bridge=ENDS_GENTLY)
    with project.config.open("a") as file:
        file.write("  - {name: broken, command: no-such-thing}\n")
    server = project.serve()
    family_of_it = family(project)
    is_missing = "its command 'no-such-thing' is not there"
    until(lambda: is_missing in project.call("status"))
    status = project.call("status")
    assert f"    bridge  pid {family_of_it[0].pid}, up 0m " in status
    assert "    broken  starts again in " in status

    # What the next is to write is away before there is a next.
    until((project.root / HEEDS).exists)
    (project.root / "bridge.pid").unlink()
    (project.root / HEEDS).unlink()
    runner = next(c for c in project.run_record.children if c.name == "sidecars")
    os.kill(runner.pid, signal.SIGKILL)
    until(are_gone(family_of_it))
    family_of_it = family(project)
    until((project.root / HEEDS).exists)
    until(lambda: ", 1 restart\n    bridge  pid" in project.call("status"))

    output = end(server)
    assert "  Sidecars (2)\n    bridge  /bin/sh, restart: on-failure\n" in output
    assert (project.root / "ended").exists()
    assert are_gone(family_of_it)()
    assert server.returncode == 0
    assert project.processes() == []


def test_sidecars_end_with_the_supervisor(project: Project) -> None:
    project.environment["COULISSE_PROCESSES"] = "web,sidecars"
    write(project, bridge=WAITS)
    server = project.serve()
    family_of_it = family(project)
    server.kill()
    until(are_gone(family_of_it))
    until(lambda: project.processes() == [])
    assert server.wait() == -signal.SIGKILL


def test_reused_pid_is_not_killed(project: Project) -> None:
    project.state.prepare()
    with subprocess.Popen(["sleep", "60"], process_group=0) as stranger:
        created_at = orphan_cleanup.created_at(stranger.pid)
        for pretended in (created_at - 60, created_at):
            assert stranger.poll() is None
            left = record("running", pid=stranger.pid, created_at=pretended)
            sidecar_records.write_record(project.state.sidecars, os.getpid(), [left])
            sidecars.kill_orphans(project.state)
        assert stranger.wait() == -signal.SIGTERM


def record(state: str, **fields: object) -> SidecarRecord:
    known = {"restarts": 2, "reason": "", "pid": None, "created_at": 0, "due_at": 0}
    return SidecarRecord(name="bridge", state=state, **{**known, **fields})


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (
            record("waiting", due_at=4102444800, reason="ended with exit code 3"),
            r"starts again in \d+ s, 2 restarts: ended with exit code 3",
        ),
        (record("waiting"), r"starts again in 0 s, 2 restarts"),
        (record("finished", reason="ended with exit code 0"), "finished: ended with"),
        (record("failed", reason="cannot be started"), "failed: cannot be started"),
        (record("running", pid=os.getpid()), rf"pid {os.getpid()}, up .*, 2 restarts"),
    ],
    ids=["waiting", "due", "finished", "failed", "running"],
)
def test_status_describes_a_sidecar(known: SidecarRecord, said: str) -> None:
    assert re.match(said, describe_sidecar(known))


def test_status_ignores_records_of_an_ended_runner(project: Project) -> None:
    project.state.prepare()
    known = record("finished")
    runner = ChildRecord("sidecars", 4711, 0.0, 0)
    served = replace(RUN, children=(runner,))
    sidecar_records.write_record(project.state.sidecars, 4712, [known])
    assert list(describe_sidecars(served, project.state)) == []
    sidecar_records.write_record(project.state.sidecars, 4711, [known])
    assert list(describe_sidecars(served, project.state)) == ["    bridge  finished: "]
    project.state.sidecars.write_text("nonsense")
    assert list(describe_sidecars(served, project.state)) == []


def test_sidecar_has_the_original_environment(monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/the/user")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
    ours = base_environment("/ours", "c.yaml")
    assert ours["PYTHONPATH"] == f"/ours{os.pathsep}/of/the/user"
    for name, value in {**ours, "COULISSE_PROCESS": "sidecars"}.items():
        monkeypatch.setenv(name, value)
    outer = outer_environment("/ours")
    assert outer["PYTHONPATH"] == "/of/the/user"
    assert not {"COULISSE_PROCESS", "DJANGO_SETTINGS_MODULE"} & outer.keys()
    monkeypatch.setenv("PYTHONPATH", "/ours")
    assert "PYTHONPATH" not in outer_environment("/ours")
