"""The files of one running server, in `COULISSE_STATE_DIR`."""

import errno
import os
import stat
from pathlib import Path

from django.conf import settings

from processes.errors import StateUnwritable


class StateDir:
    """The directory of one project's server: its pid, log and records."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pid = root / "coulisse.pid"
        self.log = root / "coulisse.log"
        self.record = root / "processes.json"
        self.sidecars = root / "sidecars.json"
        """The record of the sidecars."""
        self.sidecar_lines = root / "sidecar-lines.json"
        """The latest output of the sidecars."""
        self.sidecar_restart_requests = root / "sidecar-restarts"
        """The folder of restart requests."""
        self.sidecars_pid = root / "sidecars.pid"
        """The pid file of the process that runs the sidecars; locked by it."""
        self.broker = root / "broker"
        """The folder of the private broker."""
        self.socket = root / "broker.sock"
        """The private broker's socket, unless this path is too long for one."""

    def prepare(self) -> None:
        """Create the directory, accessible to its owner only.

        Raises `StateUnwritable`.
        """
        try:
            self.root.mkdir(mode=0o700, exist_ok=True)
            if not os.access(self.root, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            status = self.root.stat()
            # The directory of another user, such as a mounted volume, stays as it is.
            if status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) & 0o077:
                self.root.chmod(0o700)
        except OSError as exc:
            raise StateUnwritable(
                f"cannot write to the state directory {self.root}: {exc.strerror}; "
                "make it writable, or set COULISSE_STATE_DIR to another directory"
            ) from exc


def current_state() -> StateDir:
    """Return the state directory of this command's configuration."""
    return StateDir(Path(settings.COULISSE_STATE_DIR))


def describe_path(path: Path) -> str:
    """Return the path relative to the current directory if it is inside, or in full."""
    here = Path.cwd()
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)
