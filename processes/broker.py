"""The private broker: `python -m processes.broker VALKEY SOCKET FOLDER
--parent-pipe N`.

Runs Valkey, and stops it when the supervisor is killed, which Valkey cannot detect.
Django is not loaded, to keep this process small.
"""

import argparse
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from processes.supervision import parent_watch

FORCE_EXIT_SECONDS = 2.0
ORPHAN_STOP_SECONDS = 3.0
"""Time for an orphaned server to write its data and end."""
POLL_SECONDS = 0.02
LOG = "valkey.log"
SOL_LOCAL, LOCAL_PEERPID = 0, 2
"""macOS's option for the peer's pid, which the socket module lacks."""
JOURNAL = "appendonlydir"
UNREADABLE_JOURNAL = "appendonlydir.unreadable"


def command_line(valkey: Path, path: Path, folder: Path) -> list[str]:
    """Return the command line: a socket for this user only, and no port."""
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(folder),
        "logfile": LOG,
        "loglevel": "warning",
        "appendonly": "yes",
        "auto-aof-rewrite-min-size": "4mb",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    words = [str(valkey)]
    for name, value in options.items():
        words += [f"--{name}", value]
    return words


def serve(arguments: list[str], path: Path, folder: Path) -> int:
    """Run Valkey until SIGTERM or until it ends; return its exit code."""
    started: list[subprocess.Popen[bytes]] = []
    is_stopping = False

    def stop(number: int, frame: object) -> None:
        nonlocal is_stopping
        is_stopping = True
        for server in started:
            terminate(server)

    # First, because a signal before it would leave the server running.
    signal.signal(signal.SIGTERM, stop)
    server = subprocess.Popen(arguments, stdin=subprocess.DEVNULL)
    started.append(server)
    if is_stopping:
        terminate(server)
    while server.poll() is None and not is_answering(path):
        time.sleep(POLL_SECONDS)
    has_served = server.returncode is None
    code = server.wait()
    if code > 0 and not has_served:
        _rename_journal(folder)
    return code


def terminate(server: "subprocess.Popen[bytes]") -> None:
    """Terminate the server, and kill it if it does not end."""
    server.terminate()
    signal.signal(signal.SIGALRM, lambda number, frame: server.kill())
    signal.setitimer(signal.ITIMER_REAL, FORCE_EXIT_SECONDS)


def is_answering(path: Path) -> bool:
    """Return whether a server at this socket accepts commands."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _rename_journal(folder: Path) -> None:
    """Rename a journal that Valkey may be unable to read, so that its next start
    succeeds.

    No task is lost: rows store the tasks, and messages only notify workers.
    """
    journal, backup = folder / JOURNAL, folder / UNREADABLE_JOURNAL
    if journal.exists():
        shutil.rmtree(backup, ignore_errors=True)
        journal.rename(backup)


def stop_orphan(path: Path) -> None:
    """End a server that outlived its supervisor, and remove an unused socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(ORPHAN_STOP_SECONDS)
        try:
            client.connect(str(path))
            if (pid := _peer_pid(client)) > 1:
                os.kill(pid, signal.SIGTERM)
                _wait_for_end(client, pid)
        except OSError:
            pass  # No server listens there, or it has just ended.
    path.unlink(missing_ok=True)


def _wait_for_end(client: socket.socket, pid: int) -> None:
    """Wait until the server at the other end has ended; kill it if it hangs."""
    try:
        client.recv(1)  # Without a command, it returns when the server ends.
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)


def _peer_pid(client: socket.socket) -> int:
    if sys.platform == "darwin":
        packed = client.getsockopt(SOL_LOCAL, LOCAL_PEERPID, 4)
    else:
        packed = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack_from("i", packed)[0])


def make_private(folder: Path) -> None:
    """Create a folder for this user only; raises SystemExit for another user's."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    if not is_ours or stat.S_IMODE(status.st_mode) & 0o077:
        raise SystemExit(
            f"{folder} is accessible to other users: remove it, or set "
            "COULISSE_BROKER_SOCKET to a socket in another folder"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("valkey", type=Path)
    parser.add_argument("socket", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parent-pipe", type=int, required=True)
    arguments = parser.parse_args()
    parent_watch.watch_pipe(arguments.parent_pipe, grace_seconds=FORCE_EXIT_SECONDS)
    arguments.folder.mkdir(mode=0o700, exist_ok=True)
    socket_folder = arguments.socket.parent
    is_outside_state = socket_folder != arguments.folder.parent
    if is_outside_state:
        make_private(socket_folder)
    stop_orphan(arguments.socket)
    words = command_line(arguments.valkey, arguments.socket, arguments.folder)
    code = serve(words, arguments.socket, arguments.folder)
    if is_outside_state:
        with suppress(OSError):
            socket_folder.rmdir()  # Fails if other servers use it.
    sys.exit(code)


if __name__ == "__main__":
    main()
