"""The private broker: Valkey on a socket for this user only, and no port.

It stores nothing, because messages only notify workers: the rows are the tasks, and
recovery notifies again.
"""

import os
import stat
from pathlib import Path

from django.conf import settings

from core.child_processes.program import Program
from processes.errors import StateUnwritable
from processes.supervision import state_directory
from processes.supervision.child import ChildSpec

LOG = "valkey.log"


def broker_spec(valkey: Path) -> ChildSpec:
    """Return the declaration of the broker, after creating its folders.

    Raises `StateUnwritable`.
    """
    socket = Path(settings.COULISSE_BROKER_SOCKET)
    folder = state_directory.current_state().broker
    folder.mkdir(mode=0o700, exist_ok=True)
    if socket.parent != folder.parent:
        make_private(socket.parent)
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "logfile": LOG,
        "loglevel": "warning",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return ChildSpec(
        name="broker",
        program=Program(str(valkey), words, Path.cwd(), os.environ),
        is_required=False,
        outlives_web=True,
    )


def make_private(folder: Path) -> None:
    """Create a folder for this user only; raises `StateUnwritable` for another's."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    if not is_ours or stat.S_IMODE(status.st_mode) & 0o077:
        raise StateUnwritable(
            f"{folder} is accessible to other users: remove it, or set "
            "COULISSE_BROKER_SOCKET to a socket in another folder"
        )
