"""Kills process groups when the process that asked for it is gone.

    python -I -S guard.py

Its input has `+PID` when a group is to be minded and `-PID` when no longer; the end of
its input, which comes however that process died, is when it kills those that are left.
A script of its own, without imports from here: it waits, and shall be small.
"""

import os
import signal
import sys


def main() -> None:
    # It ends with its input, and not with a terminal or with those it minds.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    minded = set()
    while line := sys.stdin.readline():
        pid = int(line[1:])
        if line[0] == "+":
            minded.add(pid)
        else:
            minded.discard(pid)
    for pid in minded:
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            continue  # It is gone already.


if __name__ == "__main__":
    main()
