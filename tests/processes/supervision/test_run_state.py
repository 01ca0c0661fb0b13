"""The supervisor's record, written and read."""

import json

import pytest

from processes.supervision import run_state
from processes.supervision.run_state import ChildRecord, RunRecord

RUN = RunRecord(
    pid=4321,
    config="coulisse.yaml",
    url="http://localhost:8421",
    local_model_url=None,
    is_detached=True,
    is_serving=True,
    children=(ChildRecord("web-1", "running", pid=4322, created_at=1.5),),
)


def test_run_record_round_trips(tmp_path):
    path = tmp_path / "processes.json"
    run_state.write_record(path, RUN)
    assert run_state.read_record(path) == RUN


@pytest.mark.parametrize(
    "content",
    [
        "",
        "null",
        '"x"',
        "5",
        "[]",
        "{}",
        "{",
        '{"children": 5}',
        '{"pid": -1, "children": []}',
        "\0",
    ],
)
def test_invalid_record_file_is_none(tmp_path, content):
    path = tmp_path / "processes.json"
    path.write_text(content)
    assert run_state.read_record(path) is None


@pytest.mark.parametrize("pid", [-1, 0, 1, "4322"])
def test_invalid_pids_in_the_record_are_ignored(tmp_path, pid):
    path = tmp_path / "processes.json"
    run_state.write_record(path, RUN)
    written = json.loads(path.read_text())
    written["children"][0]["pid"] = pid
    path.write_text(json.dumps(written))
    assert run_state.read_record(path) is None


def test_directory_as_record_file_is_none(tmp_path):
    (tmp_path / "processes.json").mkdir()
    assert run_state.read_record(tmp_path / "processes.json") is None
