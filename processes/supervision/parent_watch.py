"""Detects in a child that its supervisor has ended, even after SIGKILL.

Only the supervisor has the write end of a pipe, and it writes nothing; every child
blocks on the read end. End of file means that the supervisor has ended.
"""

import argparse
import os
import signal
import threading
import time

from core.runtime import process_stop

DRAIN_SECONDS = 5.0
"""Time for open work to finish: the next server waits until these processes end."""


def watch_command_line_pipe(*, grace_seconds: float) -> None:
    """Watch the pipe of `--parent-pipe`, the only option of the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent-pipe", type=int, required=True)
    watch_pipe(parser.parse_args().parent_pipe, grace_seconds=grace_seconds)


def watch_pipe(read_end: int, *, grace_seconds: float) -> None:
    """Watch the pipe from a thread; at its end send SIGTERM, and later SIGKILL."""
    threading.Thread(
        target=_watch, args=(read_end, grace_seconds), name="parent-watch", daemon=True
    ).start()


def _watch(read_end: int, grace_seconds: float) -> None:
    while os.read(read_end, 1):
        pass
    process_stop.hurry(DRAIN_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_seconds)
    # The whole group, so that no process that this child started outlives it.
    os.killpg(os.getpgrp(), signal.SIGKILL)
