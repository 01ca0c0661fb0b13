"""The files of one running server, in `.coulisse/` beside the YAML."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from processes.errors import StateUnwritable


@dataclass(frozen=True, slots=True)
class StateDir:
    """The directory of one project's server: its pid, log and records."""

    root: Path

    @property
    def pid(self) -> Path:
        return self.root / "coulisse.pid"

    @property
    def log(self) -> Path:
        return self.root / "coulisse.log"

    @property
    def record(self) -> Path:
        return self.root / "processes.json"

    @property
    def sidecars(self) -> Path:
        """The record of the sidecars."""
        return self.root / "sidecars.json"

    @property
    def sidecar_lines(self) -> Path:
        """The latest output of the sidecars."""
        return self.root / "sidecar-lines.json"

    @property
    def sidecar_restart_requests(self) -> Path:
        """The folder of restart requests."""
        return self.root / "sidecar-restarts"

    @property
    def sidecars_pid(self) -> Path:
        """The pid file of the process that runs the sidecars; locked by it."""
        return self.root / "sidecars.pid"

    @property
    def broker(self) -> Path:
        """The folder of the private broker."""
        return self.root / "broker"

    @property
    def socket(self) -> Path:
        """The private broker's socket, unless this path is too long for one."""
        return self.root / "broker.sock"

    def prepare(self) -> None:
        """Create the directory, accessible to its owner only.

        Raises `StateUnwritable`.
        """
        try:
            self.root.mkdir(mode=0o700, exist_ok=True)
            self._restrict_permissions()
        except OSError as exc:
            raise StateUnwritable(
                f"cannot create {self.root}: {exc.strerror}; make the YAML's directory "
                "writable, or move the YAML"
            ) from exc

    def _restrict_permissions(self) -> None:
        status = self.root.stat()
        # The directory of another user, such as a mounted volume, stays as it is.
        if status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) & 0o077:
            self.root.chmod(0o700)


def current_state() -> StateDir:
    """Return the state directory of this command's configuration."""
    return StateDir(Path(settings.COULISSE_STATE_DIR))


def describe_path(path: Path) -> str:
    """Return the path relative to the current directory if it is inside, or in full."""
    here = Path.cwd()
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)
