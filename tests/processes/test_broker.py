"""The private broker: alone on its socket, and gone with who started it."""

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
from tests.processes.conftest import PATIENCE_SECONDS, until

END_WHILE_IT_STARTS = """
import os, signal, subprocess
from pathlib import Path
from processes import broker

start = subprocess.Popen

def start_and_be_told(*words, **options):
    server = start(*words, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    return server

broker.subprocess.Popen = start_and_be_told
print("ended with", broker.serve(["sleep", "60"], Path("socket"), Path()))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "a state" / "broker"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def path(folder: Path) -> Path:
    return folder.with_name("broker.sock")


@pytest.fixture
def start(folder: Path, path: Path) -> Iterator[Callable[[], "Guard"]]:
    """Return a function that starts a broker with a lifeline of its own."""
    guards: list[Guard] = []

    def start() -> Guard:
        guards.append(Guard(path, folder))
        return guards[-1]

    yield start
    for guard in guards:
        guard.drop()


class Guard:
    """The process under test, and the end of the pipe it watches."""

    def __init__(self, path: Path, folder: Path) -> None:
        reading, self._writing = os.pipe()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "processes.broker"),
                *(str(background_processes.find_valkey()), str(path), str(folder)),
                *("--lifeline", str(reading)),
            ],
            pass_fds=(reading,),
            process_group=0,
        )
        os.close(reading)

    def drop(self) -> None:
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None
        self.process.wait(PATIENCE_SECONDS)


def test_broker_ends_with_its_parent(start, path: Path) -> None:
    guard = start()
    until(lambda: broker.is_answering(path))
    assert path.stat().st_mode & 0o777 == 0o700
    guard.drop()
    assert not broker.is_answering(path)
    assert not path.exists()


def test_broker_replaces_an_orphan(start, folder: Path, path: Path) -> None:
    line = broker.command_line(background_processes.find_valkey(), path, folder)
    with subprocess.Popen(line) as left:
        until(lambda: broker.is_answering(path))
        start()
        assert left.wait(PATIENCE_SECONDS) == 0
    until(lambda: broker.is_answering(path))


def test_broker_replaces_a_hanging_orphan(
    start, folder: Path, path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(broker, "ORPHAN_STOP_SECONDS", 0.1)
    line = broker.command_line(background_processes.find_valkey(), path, folder)
    with subprocess.Popen(line) as left:
        until(lambda: broker.is_answering(path))
        left.send_signal(19)
        broker.stop_orphan(path)
        assert left.wait(PATIENCE_SECONDS) == -9
    assert not path.exists()


def test_hanging_broker_is_killed_at_shutdown(
    folder: Path, path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(broker, "FORCE_EXIT_SECONDS", 0.1)
    hangs = [sys.executable, "-c", "import signal; signal.pause()"]
    ignoring = subprocess.Popen(hangs, preexec_fn=ignore_the_end)
    broker.end(ignoring)
    assert ignoring.wait(PATIENCE_SECONDS) == -9


def ignore_the_end() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def test_unreadable_journal_is_moved_aside(start, folder: Path, path: Path) -> None:
    path.touch()  # A socket nobody serves does not disturb it.
    journal = folder / broker.JOURNAL
    journal.mkdir()
    (journal / "appendonly.aof.manifest").write_text("nonsense\n")
    first = start()
    assert first.process.wait(PATIENCE_SECONDS) == 1
    assert (folder / broker.UNREADABLE / "appendonly.aof.manifest").exists()
    start()
    until(lambda: broker.is_answering(path))


def test_broker_refuses_a_directory_of_other_users(tmp_path: Path) -> None:
    private = tmp_path / "private"
    broker.make_private(private)
    broker.make_private(private)
    private.chmod(0o777)
    with pytest.raises(SystemExit, match="not private to you"):
        broker.make_private(private)
    link = tmp_path / "link"
    link.symlink_to(private)
    with pytest.raises(SystemExit, match="not private to you"):
        broker.make_private(link)


def test_sigterm_during_the_start_leaves_no_broker(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", END_WHILE_IT_STARTS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(settings.BASE_DIR)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert told.stdout == f"ended with {-signal.SIGTERM}\n"
