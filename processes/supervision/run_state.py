"""The supervisor's record for other commands: its address and its children.

Written to `.coulisse/processes.json` on every change; read by `start`, `status`, `stop`
and `studio`, and by the next supervisor, to end the processes of a killed one.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

Pid = Annotated[int, Field(gt=1)]
"""Never 0, -1 or 1: a signal to those reaches everybody."""


@dataclass(frozen=True, slots=True)
class ChildRecord:
    """One child as it runs now."""

    name: str
    pid: Pid
    created_at: float
    """Its start by the kernel's account, in epoch seconds: tells a reused pid."""
    restarts: int


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """One child that has ended, and is to be started again."""

    name: str
    due_at: float
    """When, in epoch seconds."""
    restarts: int
    reason: str
    """Goes on after its name: `ended with exit code 3`."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One supervisor and what it runs."""

    pid: Pid
    config: str
    url: str
    """Where a browser on this machine finds the server."""
    local_model_url: str | None
    is_detached: bool
    is_serving: bool
    """Whether it has answered a request; False while it boots."""
    children: tuple[ChildRecord, ...]
    lacks_broker: bool = False
    """Whether background work waits because nothing would carry its messages."""
    waiting: tuple[WaitingRecord, ...] = ()


def write_record(path: Path, record: RunRecord) -> None:
    """Replace the file atomically, so a reader sees the old record or the new one."""
    replace_file(path, json.dumps(asdict(record), indent=1))


def replace_file(path: Path, text: str) -> None:
    """Write a whole file, or leave the one that is there."""
    draft = path.with_suffix(".new")
    draft.write_text(text)
    os.replace(draft, path)


def read_record(path: Path) -> RunRecord | None:
    """Return what the file says, or None if it is missing or not ours."""
    try:
        return RECORD_ADAPTER.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValueError):
        return None


RECORD_ADAPTER = TypeAdapter(RunRecord)
