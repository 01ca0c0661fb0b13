"""Records of the sidecars, and requests to restart one, for other processes.

The records are in `.coulisse/sidecars.json`, written on every change; read by `status`,
and by the next manager, which ends the processes of a killed one. A request is an empty
file in `.coulisse/sidecar-restarts/`, named after the sidecar in hexadecimal. The
process that runs the sidecars checks for requests twice a second.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from processes.supervision import run_state
from processes.supervision.log_pipe import OutputLine
from processes.supervision.run_state import ChildRecord, Pid
from processes.supervision.state_directory import StateDir

logger = logging.getLogger("processes.sidecars")


@dataclass(frozen=True, slots=True)
class SidecarsRecord:
    """All sidecars, and the process that runs them."""

    pid: Pid
    sidecars: tuple[ChildRecord, ...]


RECORD_ADAPTER = TypeAdapter(SidecarsRecord)
LINES_ADAPTER = TypeAdapter(dict[str, list[OutputLine]])


def write_record(path: Path, pid: int, sidecars: Iterable[ChildRecord]) -> None:
    """Replace the file."""
    run_state.write_json(path, RECORD_ADAPTER, SidecarsRecord(pid, tuple(sidecars)))


def read_record(path: Path) -> SidecarsRecord | None:
    """Return the content of the file, or None if it is missing or invalid."""
    return run_state.read_json(path, RECORD_ADAPTER)


def request_restart(files: StateDir, name: str) -> None:
    """Request the restart of a sidecar, or its start if it has ended."""
    files.sidecar_restart_requests.mkdir(mode=0o700, exist_ok=True)
    (files.sidecar_restart_requests / name.encode().hex()).touch()


def take_requests(files: StateDir) -> list[str]:
    """Return the names requested since the last call, without duplicates."""
    names = []
    try:
        for path in [*files.sidecar_restart_requests.iterdir()]:
            path.unlink(missing_ok=True)
            with suppress(ValueError):  # Not a request.
                names.append(bytes.fromhex(path.name).decode())
    except FileNotFoundError:
        pass
    except OSError as exc:
        logger.warning("cannot read %s: %s", files.sidecar_restart_requests, exc)
    return names
