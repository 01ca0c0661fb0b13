"""The private broker: one per socket, stopped with its parent."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings

from processes import broker
from processes.server import background_processes
from tests.processes.conftest import TIMEOUT_SECONDS, until

SIGTERM_DURING_START = """
import os, signal, subprocess
from pathlib import Path
from processes import broker

start = subprocess.Popen

def start_and_terminate(*words, **options):
    server = start(*words, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    return server

broker.subprocess.Popen = start_and_terminate
print("ended with", broker.serve(["sleep", "60"], Path("socket"), Path()))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "a state" / "broker"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def path(folder: Path) -> Path:
    return folder.with_name("broker.sock")


@pytest.fixture
def start(folder: Path, path: Path) -> Iterator[Callable[[], "Broker"]]:
    """Return a function that starts a broker with a parent pipe of its own."""
    brokers: list[Broker] = []

    def start() -> Broker:
        brokers.append(Broker(path, folder))
        return brokers[-1]

    yield start
    for process in brokers:
        process.close_pipe()


class Broker:
    """The process under test, and the write end of its parent pipe."""

    def __init__(self, path: Path, folder: Path) -> None:
        read_end, self._write_end = os.pipe()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "processes.broker",
                str(background_processes.find_valkey()),
                str(path),
                str(folder),
                f"--parent-pipe={read_end}",
            ],
            pass_fds=(read_end,),
            process_group=0,
        )
        os.close(read_end)

    def close_pipe(self) -> None:
        if self._write_end is not None:
            os.close(self._write_end)
            self._write_end = None
        self.process.wait(TIMEOUT_SECONDS)


def test_broker_ends_with_its_parent(start, path: Path) -> None:
    process = start()
    until(lambda: broker.is_answering(path))
    assert path.stat().st_mode & 0o777 == 0o700
    process.close_pipe()
    assert not broker.is_answering(path)
    assert not path.exists()


def test_broker_replaces_an_orphan(start, folder: Path, path: Path) -> None:
    line = broker.command_line(background_processes.find_valkey(), path, folder)
    with subprocess.Popen(line) as orphan:
        until(lambda: broker.is_answering(path))
        start()
        assert orphan.wait(TIMEOUT_SECONDS) == 0
    until(lambda: broker.is_answering(path))


def test_broker_replaces_a_hanging_orphan(
    start, folder: Path, path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(broker, "ORPHAN_STOP_SECONDS", 0.1)
    line = broker.command_line(background_processes.find_valkey(), path, folder)
    with subprocess.Popen(line) as orphan:
        until(lambda: broker.is_answering(path))
        orphan.send_signal(19)
        broker.stop_orphan(path)
        assert orphan.wait(TIMEOUT_SECONDS) == -9
    assert not path.exists()


def test_hanging_broker_is_killed_at_shutdown(
    folder: Path, path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(broker, "FORCE_EXIT_SECONDS", 0.1)
    argv = [sys.executable, "-c", "import signal; signal.pause()"]
    ignoring = subprocess.Popen(argv, preexec_fn=ignore_sigterm)
    broker.terminate(ignoring)
    assert ignoring.wait(TIMEOUT_SECONDS) == -9


def ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def test_unreadable_journal_is_renamed(start, folder: Path, path: Path) -> None:
    path.touch()  # An unused socket does no harm.
    journal = folder / broker.JOURNAL
    journal.mkdir()
    (journal / "appendonly.aof.manifest").write_text("nonsense\n")
    first = start()
    assert first.process.wait(TIMEOUT_SECONDS) == 1
    assert (folder / broker.UNREADABLE_JOURNAL / "appendonly.aof.manifest").exists()
    start()
    until(lambda: broker.is_answering(path))


def test_broker_refuses_a_directory_of_other_users(tmp_path: Path) -> None:
    private = tmp_path / "private"
    broker.make_private(private)
    broker.make_private(private)
    private.chmod(0o777)
    with pytest.raises(SystemExit, match="accessible to other users"):
        broker.make_private(private)
    link = tmp_path / "link"
    link.symlink_to(private)
    with pytest.raises(SystemExit, match="accessible to other users"):
        broker.make_private(link)


def test_sigterm_during_the_start_leaves_no_broker(tmp_path: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", SIGTERM_DURING_START],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(settings.BASE_DIR)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert completed.stdout == f"ended with {-signal.SIGTERM}\n"
