"""Sidecars in the output of `status`."""

import os
import re
from dataclasses import replace

import pytest

from processes.management.commands.status import describe_child, describe_sidecars
from processes.sidecar_control import sidecar_records
from processes.supervision.run_state import ChildRecord
from tests.processes.commands.test_status import RUN
from tests.processes.conftest import Project


def record(state: str, **fields: object) -> ChildRecord:
    defaults = {"restarts": 2, "reason": "", "pid": None, "created_at": 0, "due_at": 0}
    return ChildRecord(name="bridge", state=state, **{**defaults, **fields})


@pytest.mark.parametrize(
    ("sidecar", "expected"),
    [
        (
            record("waiting", due_at=4102444800, reason="ended with exit code 3"),
            r"restarting in \d+ s, 2 restarts: ended with exit code 3",
        ),
        (record("waiting"), r"restarting in 0 s, 2 restarts"),
        (record("finished", reason="ended with exit code 0"), "finished: ended with"),
        (record("failed", reason="cannot start"), "failed: cannot start"),
        (record("running", pid=os.getpid()), rf"pid {os.getpid()}, up .*, 2 restarts"),
    ],
    ids=["waiting", "due", "finished", "failed", "running"],
)
def test_status_describes_a_sidecar(sidecar: ChildRecord, expected: str) -> None:
    assert re.match(expected, describe_child(sidecar))


def test_status_ignores_records_of_an_ended_runner(project: Project) -> None:
    project.state.prepare()
    defaults = record("finished")
    runner = ChildRecord("sidecars", "running", pid=4711)
    served = replace(RUN, children=(runner,))
    sidecar_records.write_record(project.state.sidecars, 4712, [defaults])
    assert list(describe_sidecars(served, project.state)) == []
    sidecar_records.write_record(project.state.sidecars, 4711, [defaults])
    assert list(describe_sidecars(served, project.state)) == ["    bridge  finished: "]
    project.state.sidecars.write_text("nonsense")
    assert list(describe_sidecars(served, project.state)) == []
