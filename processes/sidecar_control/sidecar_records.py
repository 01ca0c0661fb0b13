"""Records of the sidecars, written for other processes.

Written to `.coulisse/sidecars.json` on every change; read by `status`, and by the next
manager, which ends the processes of a killed one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from processes.supervision import run_state
from processes.supervision.log_pipe import OutputLine
from processes.supervision.run_state import ChildRecord, Pid


@dataclass(frozen=True, slots=True)
class SidecarsRecord:
    """All sidecars, and the process that runs them."""

    pid: Pid
    sidecars: tuple[ChildRecord, ...]


def write_record(path: Path, pid: int, sidecars: Iterable[ChildRecord]) -> None:
    """Replace the file."""
    run_state.write_json(path, RECORD_ADAPTER, SidecarsRecord(pid, tuple(sidecars)))


def read_record(path: Path) -> SidecarsRecord | None:
    """Return the content of the file, or None if it is missing or invalid."""
    return run_state.read_json(path, RECORD_ADAPTER)


def write_lines(path: Path, lines: dict[str, list[OutputLine]]) -> None:
    """Replace the file of the sidecars' latest output."""
    run_state.write_json(path, LINES_ADAPTER, lines)


def read_lines(path: Path) -> dict[str, list[OutputLine]]:
    """Return the sidecars' latest output by name; empty without a file."""
    return run_state.read_json(path, LINES_ADAPTER) or {}


RECORD_ADAPTER = TypeAdapter(SidecarsRecord)
LINES_ADAPTER = TypeAdapter(dict[str, list[OutputLine]])
