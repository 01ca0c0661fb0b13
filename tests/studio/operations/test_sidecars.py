"""Sidecars in the studio: their state, and requests to restart them."""

import os
import time

import pytest

from access.models import AuditEntry
from processes.sidecar_control import sidecar_records
from processes.supervision import run_state, state_directory
from processes.supervision.log_pipe import OutputLine
from processes.supervision.pidfile import PidFile
from processes.supervision.run_state import ChildRecord
from processes.supervision.state_directory import StateDir
from tests.conftest import CONFIG

pytestmark = pytest.mark.database

SIDECARS = """
sidecars:
  - {name: bridge, command: /usr/bin/bridge, args: [--key, a-hidden-key]}
  - {name: a/b ü, command: other, restart: always}
"""


@pytest.fixture
def files(server, configure, tmp_path, settings):
    """The state directory of a server with two sidecars."""
    configure(CONFIG + SIDECARS)
    settings.COULISSE_STATE_DIR = tmp_path / "state"
    files = state_directory.current_state()
    files.prepare()
    return files


@pytest.fixture
def running_sidecars(files: StateDir):
    lock = PidFile(files.sidecars_pid)
    lock.acquire()
    now = time.time()
    records = [
        ChildRecord("bridge", "running", 1, "ended with exit code 3", 4321, now, 0),
        ChildRecord("a/b ü", "failed", 0, "cannot be started: <no>", None, 0, 0),
    ]
    sidecar_records.write_record(files.sidecars, os.getpid(), records)
    lines = {"bridge": [OutputLine(now, "stderr", "<b>listening</b>")]}
    run_state.write_json(files.sidecar_lines, sidecar_records.LINES_ADAPTER, lines)
    yield
    lock.release()


def test_sidecars_are_listed_in_yaml_order(running_sidecars, script):
    response = script.get("/admin/sidecars")
    bridge, other = response.json()["data"]
    assert (bridge["state"], bridge["pid"], bridge["restarts"]) == ("running", 4321, 1)
    assert bridge["lines"][0]["text"] == "<b>listening</b>"
    assert (other["name"], other["state"], other["lines"]) == ("a/b ü", "failed", [])
    assert "a-hidden-key" not in response.text


def test_page_escapes_sidecar_output(running_sidecars, browser):
    page = browser.get("/admin/sidecars").text
    assert "&lt;b&gt;listening&lt;/b&gt;" in page
    assert "cannot be started: &lt;no&gt;" in page
    # The page shows a restart without a reload.
    assert page.count("data-is-open") == 2
    assert 'data-refresh="bridge" data-revision="running 4321 1 ' in page
    assert 'data-announcement="bridge: running, pid 4321"' in page


def test_state_of_a_killed_process_is_ignored(files, script):
    record = ChildRecord("bridge", "running", 0, "", 4321, 1.0, 0)
    sidecar_records.write_record(files.sidecars, 999_999, [record])
    states = [each["state"] for each in script.get("/admin/sidecars").json()["data"]]
    assert states == ["unknown", "unknown"]
    response = script.post("/admin/sidecars/bridge/restart")
    assert response.status_code == 409
    assert response.json()["error"]["code"] == "sidecars_not_running"


def test_restart_is_requested_and_audited(running_sidecars, files, script, browser):
    response = script.post("/admin/sidecars/a%2Fb%20%C3%BC/restart")
    assert response.status_code == 202
    assert sidecar_records.take_requests(files) == ["a/b ü"]
    entry = AuditEntry.objects.filter(action="sidecar.restart").latest("at")
    assert (entry.target, entry.actor) == ("a/b ü", "studio: local")
    page = browser.submit(
        "/admin/sidecars/bridge/restart", {}, form_page="/admin/sidecars"
    )
    assert "is restarting" in page.text
    assert sidecar_records.take_requests(files) == ["bridge"]
    assert sidecar_records.take_requests(files) == []


def test_unknown_sidecar_is_404(running_sidecars, files, script):
    response = script.post("/admin/sidecars/none/restart")
    assert response.status_code == 404
    assert sidecar_records.take_requests(files) == []


def test_viewers_cannot_restart(viewer):
    assert viewer.get("/admin/sidecars").status_code == 200
    assert viewer.post("/admin/sidecars/bridge/restart").status_code == 403
