"""Names of worker processes, by which others on the machine detect ended ones.

`HOST:PID:STARTED`. The host is identified by its boot and, where they exist, by its PID
namespace: two containers, or two machines of one name, see different processes under
the same number.
"""

import hashlib
import os
import socket
import uuid
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from core.child_processes import process_identity

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NAMESPACE = Path("/proc/self/ns/pid")
MAX_HOST_LENGTH = 200


def own_name() -> str:
    """Return this process's name."""
    return _worker_name(os.getpid())


@cache
def _worker_name(pid: int) -> str:
    return f"{_host_id()}:{pid}:{process_identity.created_at(pid):.0f}"


@cache
def _host_id() -> str:
    """Return an id of the scope in which process ids are unique."""
    parts = []
    with suppress(OSError):
        parts = [BOOT_ID.read_text(), os.readlink(NAMESPACE)]
    digest = hashlib.sha256("".join(parts or [str(uuid.getnode())]).encode())
    return f"{socket.gethostname()[:MAX_HOST_LENGTH]}/{digest.hexdigest()[:12]}"


def ended_workers(names: Iterable[str]) -> list[str]:
    """Return those workers of this machine that have ended."""
    return [name for name in names if _has_ended(name)]


def _has_ended(name: str) -> bool:
    host, _, process = name.partition(":")
    pid, _, started = process.partition(":")
    if host != _host_id() or not pid.isdecimal() or not started.isdecimal():
        return False
    return not process_identity.is_alive(int(pid), int(started))
