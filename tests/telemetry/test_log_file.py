"""The rotation of the request log, by several processes at once."""

import stat
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from telemetry.request_log import log_file

LINE = b"x" * 99 + b"\n"


def append_many(path: Path, count: int) -> None:
    for _ in range(count):
        log_file.append(path, LINE, max_bytes=1000, keep_files=400)


def test_file_is_readable_by_its_owner_only(tmp_path):
    path = tmp_path / "requests.log"
    append_many(path, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("keep_files", [0, 1, 3])
def test_rotation_bounds_files_and_sizes(tmp_path, keep_files):
    path = tmp_path / "requests.log"
    for number in range(100):
        line = b"%03d" % number + LINE[3:]
        log_file.append(path, line, max_bytes=1000, keep_files=keep_files)
    files = sorted(tmp_path.iterdir())
    assert len(files) == keep_files + 1
    assert all(file.stat().st_size == 1000 for file in files)
    newest_last = b"".join(file.read_bytes() for file in [*files[:0:-1], path])
    numbers = [int(line[:3]) for line in newest_last.splitlines()]
    assert numbers == list(range(100))[-10 * (keep_files + 1) :]


def test_processes_that_rotate_at_once_lose_no_line(tmp_path):
    path = tmp_path / "requests.log"
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        list(pool.map(append_many, [path] * 4, [300] * 4))
    files = list(tmp_path.iterdir())
    assert b"".join(file.read_bytes() for file in files) == LINE * 1200
    assert max(file.stat().st_size for file in files) <= 1000


def test_file_moved_away_by_another_program_is_replaced(tmp_path):
    path = tmp_path / "requests.log"
    append_many(path, 1)
    path.rename(tmp_path / "moved")
    append_many(path, 1)
    assert path.read_bytes() == LINE
