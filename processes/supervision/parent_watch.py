"""How a child notices that its supervisor is gone, even after SIGKILL.

The supervisor alone holds the write end of a pipe and writes nothing; every child
blocks on the read end. End of file can only mean that the supervisor died.
"""

import argparse
import os
import signal
import threading
import time


def watch_command_line_pipe(*, grace_seconds: float) -> None:
    """Hold the pipe that the command line names, of a process that has nothing else
    to be told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lifeline", type=int, required=True)
    watch_pipe(parser.parse_args().lifeline, grace_seconds=grace_seconds)


def watch_pipe(read_end: int, *, grace_seconds: float) -> None:
    """Watch the pipe from a thread; at its end stop, gently first and then hard."""
    threading.Thread(
        target=_watch, args=(read_end, grace_seconds), name="lifeline", daemon=True
    ).start()


def _watch(read_end: int, grace_seconds: float) -> None:
    while os.read(read_end, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_seconds)
    # The whole group: what this child started must not outlive it either.
    os.killpg(os.getpgrp(), signal.SIGKILL)
