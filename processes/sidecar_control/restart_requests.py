"""What others ask of the process that runs the sidecars: to start one again.

A wish is a file of no content in `.coulisse/sidecars.again/`, named by the sidecar in
hexadecimal. That process looks for them twice a second.
"""

import logging

from processes.supervision.state_directory import StateDir

logger = logging.getLogger("processes.sidecars")


def request_restart(files: StateDir, name: str) -> None:
    """Ask for a sidecar to be ended and started anew, or started if it has ended."""
    files.sidecar_restart_requests.mkdir(mode=0o700, exist_ok=True)
    (files.sidecar_restart_requests / name.encode().hex()).touch()


def take_requests(files: StateDir) -> list[str]:
    """Return what was asked for since the last time, each name once."""
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
