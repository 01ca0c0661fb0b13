"""Status of sidecars: the configuration of each, and its state."""

from datetime import UTC, datetime
from typing import Any

from config.sections import Config
from core.errors import Conflict, NotFound
from processes.config import SIDECARS, SidecarConfig
from processes.sidecar_control import sidecar_records
from processes.supervision import pidfile, run_state
from processes.supervision.log_pipe import OutputLine
from processes.supervision.run_state import ChildRecord
from processes.supervision.state_directory import StateDir


class SidecarUnknown(NotFound):
    """There is no such sidecar under sidecars:."""

    code = "sidecar_not_found"


class SidecarsNotRunning(Conflict):
    """The sidecars are not running. Start the server, or run coulisse sidecars."""

    code = "sidecars_not_running"


def list_sidecars(config: Config, files: StateDir) -> list[dict[str, Any]]:
    """Return all sidecars in the order of the YAML, with their latest output."""
    records = _live_records(files)
    lines: dict[str, list[OutputLine]] = {}
    if records:
        path, adapter = files.sidecar_lines, sidecar_records.LINES_ADAPTER
        lines = run_state.read_json(path, adapter) or {}
    return [
        _sidecar_as_json(sidecar, records.get(name), lines.get(name, []))
        for name, sidecar in config.get(SIDECARS).items()
    ]


def request_restart(config: Config, files: StateDir, name: str) -> None:
    """Request the restart of a sidecar, even if it has finished or failed.

    Raises `SidecarUnknown` and `SidecarsNotRunning`.
    """
    if name not in config.get(SIDECARS):
        raise SidecarUnknown(f"there is no sidecar '{name}' under sidecars:")
    if name not in _live_records(files):
        raise SidecarsNotRunning
    sidecar_records.request_restart(files, name)


def _live_records(files: StateDir) -> dict[str, ChildRecord]:
    """Return the records of running sidecars; empty if their manager was killed."""
    record = sidecar_records.read_record(files.sidecars)
    if record is None or pidfile.holder_pid(files.sidecars_pid) != record.pid:
        return {}
    return {sidecar.name: sidecar for sidecar in record.sidecars}


def _sidecar_as_json(
    sidecar: SidecarConfig, record: ChildRecord | None, lines: list[OutputLine]
) -> dict[str, Any]:
    shown = record or ChildRecord(sidecar.name, "waiting")
    return {
        "name": sidecar.name,
        "object": "sidecar",
        # Without arguments, because they may contain secrets.
        "command": sidecar.command,
        "restart": sidecar.restart,
        "has_health": sidecar.health is not None,
        "state": "unknown" if record is None else record.state,
        "pid": shown.pid,
        "restarts": shown.restarts,
        "reason": shown.reason or None,
        "started_at": _to_datetime(shown.created_at),
        "due_at": _to_datetime(shown.due_at),
        "lines": [
            {"at": _to_datetime(line.at), "stream": line.stream, "text": line.text}
            for line in lines
        ],
    }


def _to_datetime(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
