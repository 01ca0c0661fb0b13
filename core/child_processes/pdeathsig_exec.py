"""Runs a command that must not outlive its parent process.

    python -I -S pdeathsig_exec.py PARENT_PID COMMAND [ARGUMENT ...]

Linux kills the command when its parent dies, even from SIGKILL. The command replaces
this process, so none of it stays in memory. A standalone script without imports from
here: it must start fast.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

NOT_RUNNABLE = 126
"""The shell's exit code for a command that exists but cannot run."""


def main() -> None:
    parent, command, *arguments = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the line above.
    if os.getppid() != int(parent):
        return
    # Python ignores these signals, and an executed command would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execv(command, [command, *arguments])  # noqa: S606 (that is the point)
    except OSError as exc:
        sys.stderr.write(f"cannot run {command}: {exc.strerror}\n")
        sys.exit(NOT_RUNNABLE)


if __name__ == "__main__":
    main()
