"""The files of one running server, in `.coulisse/` beside the YAML."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from processes.errors import StateUnwritable


@dataclass(frozen=True, slots=True)
class StateDir:
    """Where one project's server keeps its pid, its log and its list of children."""

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
        """What is known of the sidecars."""
        return self.root / "sidecars.json"

    @property
    def sidecar_lines(self) -> Path:
        """What they printed last."""
        return self.root / "sidecar-lines.json"

    @property
    def sidecar_restart_requests(self) -> Path:
        """Which of them somebody wants started again."""
        return self.root / "sidecars.again"

    @property
    def sidecars_pid(self) -> Path:
        """Who runs them; locked, so that nobody else does."""
        return self.root / "sidecars.pid"

    @property
    def broker(self) -> Path:
        """What the private broker keeps."""
        return self.root / "broker"

    @property
    def socket(self) -> Path:
        """Where it listens, unless this path is too long for a socket."""
        return self.root / "broker.sock"

    def prepare(self) -> None:
        """Create the directory, or take it, for its owner only.

        Raises `StateUnwritable`.
        """
        try:
            self.root.mkdir(mode=0o700, exist_ok=True)
            self._keep_others_out()
        except OSError as exc:
            raise StateUnwritable(
                f"cannot create {self.root}: {exc.strerror}; give yourself the right "
                "to write beside the YAML, or move the YAML"
            ) from exc

    def _keep_others_out(self) -> None:
        status = self.root.stat()
        # Another's directory, say a mounted volume, keeps the rights it was given.
        if status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) & 0o077:
            self.root.chmod(0o700)


def current_state() -> StateDir:
    """Return the state directory of the configuration this command was given."""
    return StateDir(Path(settings.COULISSE_STATE_DIR))


def describe_path(path: Path) -> str:
    """Return the path as one would type it here: `./coulisse.yaml`, or in full."""
    here = Path.cwd()
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)
