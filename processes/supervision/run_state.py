"""The supervisor's record for other commands: its address and its children.

Written to `.coulisse/processes.json` on every change; read by `start`, `status`, `stop`
and `studio`, and by the next supervisor, which ends the processes of a killed one.
"""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, TypeAdapter

logger = logging.getLogger(__name__)

T = TypeVar("T")
Pid = Annotated[int, Field(gt=1)]
"""Never 0, -1 or 1, because a signal to those reaches other processes."""
State = Literal["running", "waiting", "finished", "failed"]


@dataclass(frozen=True, slots=True)
class ChildRecord:
    """The current state of one child."""

    name: str
    state: State
    """`waiting` for a restart; `finished` and `failed` do not restart."""
    restarts: int = 0
    reason: str = ""
    """How it ended the last time, `ended with exit code 3`; empty before its first end.
    Follows the child's name in messages."""
    pid: Pid | None = None
    created_at: float = 0
    """Start time reported by the kernel, in epoch seconds; 0 without a pid. Detects a
    reused pid."""
    due_at: float = 0
    """Time of the next restart, in epoch seconds; 0 unless waiting."""

    @property
    def has_started(self) -> bool:
        """Whether a start was attempted."""
        return self.state != "waiting" or self.restarts > 0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One supervisor and its children."""

    pid: Pid
    config: str
    url: str
    """The server's address for a browser on this machine."""
    local_model_url: str | None
    is_detached: bool
    is_serving: bool
    """Whether the server has answered; False while it starts."""
    children: tuple[ChildRecord, ...]
    """Those that have been started."""
    lacks_broker: bool = False
    """Whether background work waits because there is no broker."""
    stops_by: float = 0
    """When all processes have ended, in epoch seconds; 0 unless it is stopping."""


def write_record(path: Path, record: RunRecord) -> None:
    """Replace the file atomically, so a reader sees the old record or the new one."""
    write_json(path, RECORD_ADAPTER, record)


def write_json(path: Path, adapter: TypeAdapter[T], value: T) -> None:
    """Write a file atomically; an error is logged, and leaves the old one.

    A full disk must not stop a server that still answers.
    """
    temporary = path.with_suffix(".new")
    try:
        temporary.write_bytes(adapter.dump_json(value, indent=1))
        os.replace(temporary, path)
    except OSError as exc:
        logger.warning("cannot write %s: %s", path, exc)


def read_record(path: Path) -> RunRecord | None:
    """Return the content of the file, or None if it is missing or invalid."""
    return read_json(path, RECORD_ADAPTER)


def read_json(path: Path, adapter: TypeAdapter[T]) -> T | None:
    """Return the content of a file, or None if it is missing or invalid."""
    try:
        return adapter.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValueError):
        return None


RECORD_ADAPTER = TypeAdapter(RunRecord)
