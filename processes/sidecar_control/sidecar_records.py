"""Records of the sidecars, written for other processes.

Written to `.coulisse/sidecars.json` on every change; read by `status`, and by the next
manager, which ends the processes of a killed one.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from processes.supervision import run_state
from processes.supervision.log_pipe import OutputLine
from processes.supervision.run_state import ChildRecord, Pid

State = Literal["running", "waiting", "finished", "failed"]


@dataclass(frozen=True, slots=True)
class SidecarRecord:
    """The current state of one sidecar."""

    name: str
    state: State
    """`waiting` for a restart; `finished` and `failed` do not restart."""
    restarts: int
    reason: str
    """How it ended the last time; empty before its first end."""
    pid: Pid | None
    created_at: float
    """Start time reported by the kernel, in epoch seconds; 0 without a pid."""
    due_at: float
    """Time of the next restart, in epoch seconds; 0 unless waiting."""

    @property
    def process(self) -> ChildRecord | None:
        """The record of its process, if there is one."""
        if self.pid is None:
            return None
        return ChildRecord(self.name, self.pid, self.created_at, self.restarts)


@dataclass(frozen=True, slots=True)
class SidecarsRecord:
    """All sidecars, and the process that runs them."""

    pid: Pid
    sidecars: tuple[SidecarRecord, ...]


def write_record(path: Path, pid: int, sidecars: Iterable[SidecarRecord]) -> None:
    """Replace the file."""
    run_state.replace_file(
        path, json.dumps(asdict(SidecarsRecord(pid, tuple(sidecars))))
    )


def read_record(path: Path) -> SidecarsRecord | None:
    """Return the content of the file, or None if it is missing or invalid."""
    try:
        return RECORD_ADAPTER.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValueError):
        return None


def write_lines(path: Path, lines: Mapping[str, Iterable[OutputLine]]) -> None:
    """Replace the file of the sidecars' latest output."""
    content = {
        name: [asdict(line) for line in printed] for name, printed in lines.items()
    }
    run_state.replace_file(path, json.dumps(content))


def read_lines(path: Path) -> dict[str, list[OutputLine]]:
    """Return the sidecars' latest output by name; empty without a file."""
    try:
        return LINES_ADAPTER.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValueError):
        return {}


RECORD_ADAPTER = TypeAdapter(SidecarsRecord)
LINES_ADAPTER = TypeAdapter(dict[str, list[OutputLine]])
