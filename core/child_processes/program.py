"""Programs to run: how they are found and started, and how they ended."""

import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from core.child_processes import pdeathsig_exec
from core.errors import Unavailable


class ProgramStartFailed(Unavailable):
    """A program cannot be started."""

    @classmethod
    def of(cls, exc: OSError | ValueError) -> "ProgramStartFailed":
        """Return the error for what the system says."""
        return cls(str(exc.strerror if isinstance(exc, OSError) else exc))


@dataclass(frozen=True, slots=True)
class Program:
    command: str
    args: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    descriptors: tuple[int, ...] = ()
    """The file descriptors it inherits."""
    is_ours: bool = False
    """Whether it ends by itself when we end, together with what it started."""

    def find(self) -> str:
        """Return its path; raises `ProgramStartFailed` if it is missing."""
        if not self.folder.is_dir():
            raise ProgramStartFailed(f"its cwd '{self.folder}' is not a folder")
        name = self.command
        # A path is relative to the program's folder.
        path = str(self.folder / name) if os.sep in name else name
        found = shutil.which(path, path=self.environment.get("PATH"))
        if found is None:
            raise ProgramStartFailed(
                f"its command '{name}' is missing or not executable"
            )
        return found

    def command_line(self) -> list[str]:
        """Return the command line; the kernel kills a foreign program when we end.

        Raises `ProgramStartFailed` if it is missing. Only Linux can do this.
        """
        words = [self.find(), *self.args]
        if self.is_ours or sys.platform != "linux":
            return words
        wrapper = [sys.executable, "-I", "-S", pdeathsig_exec.__file__]
        return [*wrapper, str(os.getpid()), *words]


def kill_group(pid: int) -> None:
    """Kill the process group that this process leads or led."""
    signal_group(pid, signal.SIGKILL)


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group that this process leads or led."""
    # macOS reports EPERM for a group that consists only of a zombie.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def describe_exit(returncode: int) -> str:
    """Return `exit code 3` or `signal SIGKILL`."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"signal {signal.Signals(-returncode).name}"
    except ValueError:
        return f"signal {-returncode}"
