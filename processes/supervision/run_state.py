"""The supervisor's record for other commands: its address and its children.

Written to `.coulisse/processes.json` on every change; read by `start`, `status`, `stop`
and `studio`, and by the next supervisor, which ends the processes of a killed one.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

Pid = Annotated[int, Field(gt=1)]
"""Never 0, -1 or 1, because a signal to those reaches other processes."""


@dataclass(frozen=True, slots=True)
class ChildRecord:
    """A running child."""

    name: str
    pid: Pid
    created_at: float
    """Start time reported by the kernel, in epoch seconds; detects a reused pid."""
    restarts: int


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """A child that has ended and waits for its restart."""

    name: str
    due_at: float
    """Time of the restart, in epoch seconds."""
    restarts: int
    reason: str
    """Follows the child's name in messages: `ended with exit code 3`."""


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
    lacks_broker: bool = False
    """Whether background work waits because there is no broker."""
    waiting: tuple[WaitingRecord, ...] = ()


def write_record(path: Path, record: RunRecord) -> None:
    """Replace the file atomically, so a reader sees the old record or the new one."""
    replace_file(path, json.dumps(asdict(record), indent=1))


def replace_file(path: Path, text: str) -> None:
    """Write a file atomically; an error leaves the old one."""
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    os.replace(temporary, path)


def read_record(path: Path) -> RunRecord | None:
    """Return the content of the file, or None if it is missing or invalid."""
    try:
        return RECORD_ADAPTER.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValueError):
        return None


RECORD_ADAPTER = TypeAdapter(RunRecord)
