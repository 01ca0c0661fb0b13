"""Requests of other processes to restart a sidecar.

A request is an empty file in `.coulisse/sidecars.again/`, named by the sidecar in
hexadecimal. The process that runs the sidecars checks for them twice a second.
"""

import logging

from processes.supervision.state_directory import StateDir

logger = logging.getLogger("processes.sidecars")


def request_restart(files: StateDir, name: str) -> None:
    """Request the restart of a sidecar, or its start if it has ended."""
    files.sidecar_restart_requests.mkdir(mode=0o700, exist_ok=True)
    (files.sidecar_restart_requests / name.encode().hex()).touch()


def take_requests(files: StateDir) -> list[str]:
    """Return the names requested since the last call, without duplicates."""
    try:
        found = list(files.sidecar_restart_requests.iterdir())
    except FileNotFoundError:
        return []
    except OSError as exc:
        logger.warning("cannot look into %s: %s", files.sidecar_restart_requests, exc)
        return []
    names = []
    for path in found:
        path.unlink(missing_ok=True)
        try:
            names.append(bytes.fromhex(path.name).decode())
        except ValueError:
            continue  # Somebody else's file.
    return names
