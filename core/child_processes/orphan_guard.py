"""Kills process groups when the parent process is gone.

    python -I -S orphan_guard.py

Its input has `+PID` to watch a group and `-PID` to stop. The input ends however the
parent dies; the guard then kills the remaining groups. A standalone script without
imports from here: it waits, and must stay small.
"""

import os
import signal
import sys


def main() -> None:
    # It ends with its input, not with a terminal or the groups it watches.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    watched = set()
    while line := sys.stdin.readline():
        pid = int(line[1:])
        if line[0] == "+":
            watched.add(pid)
        else:
            watched.discard(pid)
    for pid in watched:
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            continue  # The group is already gone.


if __name__ == "__main__":
    main()
