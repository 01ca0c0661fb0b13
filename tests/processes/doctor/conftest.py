"""A running server that only its record shows."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from processes.supervision import run_state
from processes.supervision.pidfile import PidFile
from processes.supervision.run_state import ChildRecord
from tests.processes.commands.test_status import RUN
from tests.processes.conftest import Project


@pytest.fixture
def record_run(project: Project) -> Iterator[Callable[..., None]]:
    """Return a function that records a running server with these children."""
    project.state.root.mkdir(mode=0o700, exist_ok=True)
    lock = PidFile(project.state.pid)
    lock.acquire()

    def record_run(*children: ChildRecord, **fields: object) -> None:
        record = replace(RUN, pid=os.getpid(), children=children, **fields)
        run_state.write_record(project.state.record, record)

    yield record_run
    lock.release()
