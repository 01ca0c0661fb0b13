"""Requests of other processes to restart a sidecar.

A request is an empty file in `.coulisse/sidecar-restarts/`, named after the sidecar in
hexadecimal. The process that runs the sidecars checks for requests twice a second.
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
        paths = list(files.sidecar_restart_requests.iterdir())
    except FileNotFoundError:
        return []
    except OSError as exc:
        logger.warning("cannot read %s: %s", files.sidecar_restart_requests, exc)
        return []
    names = []
    for path in paths:
        path.unlink(missing_ok=True)
        try:
            names.append(bytes.fromhex(path.name).decode())
        except ValueError:
            continue  # Not a request.
    return names
