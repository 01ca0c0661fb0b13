"""`studio` opens the pages of the running server."""

import os
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from processes.supervision import run_state
from processes.supervision.pidfile import PidFile
from processes.supervision.state_directory import StateDir


@pytest.fixture
def state(tmp_path: Path, settings) -> StateDir:
    settings.COULISSE_STATE_DIR = tmp_path
    return StateDir(tmp_path)


@pytest.mark.parametrize("command", ["studio", "admin"])
@pytest.mark.parametrize("has_browser", [True, False])
def test_studio_command_opens_a_browser(
    state: StateDir, monkeypatch, command: str, has_browser: bool
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        "webbrowser.open", lambda url: opened.append(url) or has_browser
    )
    run = run_state.RunRecord(
        pid=os.getpid(),
        config="coulisse.yaml",
        url="http://localhost:8423",
        local_model_url=None,
        is_detached=True,
        is_serving=True,
        children=(),
    )
    run_state.write_record(state.record, run)
    lock = PidFile(state.pid)
    lock.acquire()
    output = StringIO()
    call_command(command, stdout=output)
    lock.release()
    assert opened == ["http://localhost:8423/admin/"]
    assert output.getvalue().startswith("opening http://localhost:8423/admin/\n")
    assert ("cannot open a browser" in output.getvalue()) is not has_browser


def test_studio_command_requires_a_running_server(state: StateDir) -> None:
    with pytest.raises(CommandError, match="not running"):
        call_command("studio")
