"""The names and files of processes in the shared directory."""

import os
import stat
from pathlib import Path

import pytest

from telemetry.metrics import process_files
from telemetry.metrics.process_files import ProcessFiles, find_processes


def test_processes_have_different_names_while_they_run(tmp_path: Path):
    first, second = ProcessFiles(tmp_path, "web"), ProcessFiles(tmp_path, "web")
    beat = ProcessFiles(tmp_path, "beat")
    assert find_processes(tmp_path) == ["beat-0", "web-0", "web-1"]
    first.close()
    assert find_processes(tmp_path) == ["beat-0", "web-1"]
    successor = ProcessFiles(tmp_path, "web")
    assert successor.name == "web-0"
    for each in (second, beat, successor):
        each.close()
    assert find_processes(tmp_path) == []


def test_ended_processes_leave_counters_and_no_gauges(tmp_path: Path):
    web, worker = ProcessFiles(tmp_path, "web"), ProcessFiles(tmp_path, "worker")
    counters, gauges = web.allocate("counter"), web.allocate("gauge_max")
    own = worker.allocate("gauge_max")
    assert find_processes(tmp_path) == ["web-0", "worker-0"]
    assert counters.exists()
    assert gauges.exists()
    web.close()
    assert find_processes(tmp_path) == ["worker-0"]
    assert counters.exists()
    assert not gauges.exists()
    assert own.exists()
    worker.close()


def test_first_process_of_a_server_removes_all_files(tmp_path: Path):
    ended = ProcessFiles(tmp_path, "worker")
    counters = ended.allocate("counter")
    ended.exemplars().write_text("[]")
    ended.close()
    started = ProcessFiles(tmp_path, "web")
    assert not counters.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"directory", "web-0.lock"}
    started.close()


def test_files_are_private_and_have_their_space(tmp_path: Path):
    files = ProcessFiles(tmp_path / "metrics", "web")
    path = files.allocate("counter")
    status = path.stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_size == process_files.FILE_BYTES
    # Not sparse: a full disk cannot kill the process that writes later.
    assert status.st_blocks * 512 >= process_files.FILE_BYTES
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    files.close()


def test_full_disk_is_an_error_and_not_a_signal(tmp_path: Path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    files = ProcessFiles(tmp_path, "web")
    monkeypatch.setattr(os, "posix_fallocate", fail, raising=False)
    monkeypatch.setattr(os, "truncate", fail)
    with pytest.raises(OSError, match="No space left"):
        files.allocate("counter")
    files.close()
