"""The supervisor, when processes of a running server end or hang."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from urllib.error import URLError
from uuid import uuid4

import pytest

from core.child_processes import process_identity
from processes.supervision import orphan_cleanup, run_state
from tests.processes.conftest import (
    QUICK_MANAGE,
    TIMEOUT_SECONDS,
    Project,
    end,
    until,
)


def test_killed_web_process_restarts_on_the_same_port(project: Project) -> None:
    process = project.serve()
    killed = int(project.get("/pid"))
    os.kill(killed, signal.SIGKILL)
    # No retry: the connection waits in the backlog until the next process accepts it.
    successor = int(project.get("/pid"))
    assert successor != killed
    # It may answer before the record contains it.
    until(lambda: [child.pid for child in project.run_record.children] == [successor])
    assert project.run_record.children[0].restarts == 1
    assert "web-1 ended with signal SIGKILL; restarting" in end(process)


def test_killed_web_process_refuses_connections_while_others_serve(
    project: Project,
) -> None:
    """A balancer then asks another server at once; in the backlog it would wait."""
    process = project.serve()
    add_web_elsewhere(project)
    killed = int(project.get("/pid"))
    os.kill(killed, signal.SIGKILL)
    results: list[str] = []

    def ask() -> bool:
        try:
            results.append(project.get("/pid"))
        except OSError as exc:
            results.append(type(getattr(exc, "reason", exc)).__name__)
        time.sleep(0.01)
        return results[-1].isdigit()

    until(ask)
    # The restart takes half a second at least, for which none waits.
    assert results.count("ConnectionRefusedError") >= 5
    assert int(results[-1]) != killed
    # The same again: the socket was replaced under its descriptor.
    os.kill(int(results[-1]), signal.SIGKILL)
    until(ask)
    assert "web-1 ended with signal SIGKILL; restarting" in end(process)


def test_starting_server_refuses_connections_while_others_serve(
    project: Project,
) -> None:
    end(project.serve())
    add_web_elsewhere(project)
    process = project.attach()
    refused = 0
    while not project.is_serving(process.pid):
        has_socket = project.state.record.exists()
        with suppress(URLError):
            project.get("/pid")
            continue
        refused += has_socket
        time.sleep(0.01)
    assert refused >= 5
    end(process)


def add_web_elsewhere(project: Project) -> None:
    """Write the heartbeat of a web process of another server."""
    path = project.state.root / "coulisse-memory.db"
    with closing(sqlite3.connect(path, timeout=TIMEOUT_SECONDS)) as database, database:
        database.execute(
            "INSERT INTO database_runningprocess "
            "(id, kind, host, pid, version, config_digest, key_ids, started_at, "
            "seen_at) VALUES (?, 'web', 'elsewhere', 7, '', '', '', "
            "datetime('now'), datetime('now', '+1 hour'))",
            [uuid4().hex],
        )


def test_children_end_when_the_supervisor_is_killed(project: Project) -> None:
    process = project.serve()
    process.kill()
    until(lambda: project.processes() == [])
    with pytest.raises(SystemExit, match="3"):
        project.call("status")
    assert project.call("stop") == "not running; removed a stale pid file\n"
    assert not project.state.pid.exists()


def test_next_start_ends_orphans_of_a_killed_server(
    project: Project, unrelated: subprocess.Popen[bytes]
) -> None:
    orphan = child_record(unrelated)
    project.state.prepare()
    run = run_state.RunRecord(
        pid=4321,
        config=str(project.config),
        url=project.url,
        local_model_url=None,
        is_detached=True,
        is_serving=True,
        children=(orphan,),
    )
    run_state.write_record(project.state.record, run)
    output = end(project.serve())
    assert f"stopped web-1 (pid {unrelated.pid}) of a killed server" in output
    assert unrelated.wait() == -signal.SIGTERM


def test_stop_lets_a_stream_finish(project: Project) -> None:
    process = project.serve()
    with urllib.request.urlopen(
        f"{project.url}/stream", timeout=TIMEOUT_SECONDS
    ) as stream:
        assert stream.readline() == b"tick\n"
        process.send_signal(signal.SIGTERM)
        rest = stream.read().decode()
    assert re.fullmatch(r"(tick\n){4}\d+", rest)
    process.communicate(timeout=TIMEOUT_SECONDS)


@pytest.mark.parametrize("path", ["/endless", "/hanging"])
def test_endless_stream_does_not_delay_the_stop(project: Project, path: str) -> None:
    project.write(", drain_seconds: 1")
    if path == "/endless":  # It ends by itself, long before it would be killed.
        project.environment["CLEANUP_SECONDS"] = str(TIMEOUT_SECONDS)
    process = project.serve(QUICK_MANAGE)
    with urllib.request.urlopen(project.url + path, timeout=TIMEOUT_SECONDS) as stream:
        assert stream.readline() == b"tick\n"
        output = end(process)
    assert ("web-1 did not end within 2 s; killed" in output) is (path == "/hanging")
    assert project.processes() == []


def test_hanging_web_process_is_replaced(project: Project) -> None:
    process = project.serve(QUICK_MANAGE)
    hanging = int(project.get("/pid"))
    os.kill(hanging, signal.SIGSTOP)
    successor = int(project.get("/pid"))
    assert successor != hanging
    read_to(process, "web-1 was unhealthy: its event loop sends no heartbeat; rest")
    # The heartbeats that its predecessor missed do not count.
    assert int(project.get("/pid")) == successor
    assert "unhealthy" not in end(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_stops_at_once(project: Project, number: int) -> None:
    process = project.serve()
    web = project.run_record.children[0]
    os.kill(web.pid, signal.SIGSTOP)

    def interrupt_again() -> bool:
        if orphan_cleanup.is_alive(web):
            process.send_signal(number)
            return False
        return True

    # Sooner than after one signal: the default of `server.drain_seconds`.
    until(interrupt_again, seconds=45)
    process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0
    assert project.processes() == []


def test_reused_pid_is_never_killed(unrelated: subprocess.Popen[bytes]) -> None:
    earlier = child_record(unrelated, seconds_ago=60)
    assert orphan_cleanup.end_processes([earlier]) == []
    assert unrelated.poll() is None


def read_to(process: subprocess.Popen[str], words: str) -> str:
    """Return the next line of the output with these words."""
    assert process.stdout is not None
    return next(line for line in process.stdout if words in line)


@pytest.fixture
def unrelated() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, process_group=0
    ) as process:
        yield process
        process.kill()


def child_record(
    process: subprocess.Popen[bytes], *, seconds_ago: float = 0
) -> run_state.ChildRecord:
    """Return the record that a supervisor would have written of this process."""
    return run_state.ChildRecord(
        name="web-1",
        state="running",
        pid=process.pid,
        created_at=process_identity.created_at(process.pid) - seconds_ago,
    )
