"""What a supervisor tells other commands, read with suspicion."""

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
    children=(ChildRecord("web-1", 4322, 1.5, 0),),
)


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "processes.json"
    run_state.write_record(path, RUN)
    assert run_state.read_record(path) == RUN


@pytest.mark.parametrize(
    "content",
    [
        *("", "null", '"x"', "5", "[]", "{}", "{", '{"children": 5}'),
        *('{"pid": -1, "children": []}', "\0"),
    ],
)
def test_anything_else_is_no_record(tmp_path, content):
    path = tmp_path / "processes.json"
    path.write_text(content)
    assert run_state.read_record(path) is None


@pytest.mark.parametrize("pid", [-1, 0, 1, "4322", None])
def test_a_pid_that_means_everybody_is_not_believed(tmp_path, pid):
    path = tmp_path / "processes.json"
    run_state.write_record(path, RUN)
    written = json.loads(path.read_text())
    written["children"][0]["pid"] = pid
    path.write_text(json.dumps(written))
    assert run_state.read_record(path) is None


def test_a_directory_in_its_place_is_no_record(tmp_path):
    (tmp_path / "processes.json").mkdir()
    assert run_state.read_record(tmp_path / "processes.json") is None
