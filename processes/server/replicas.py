"""The other servers that share this one's database."""

import os
import socket

from django.db import DatabaseError, InterfaceError, connections

from database.models import RunningProcess


def serve_elsewhere() -> bool:
    """Return whether web processes of other servers run; call it while none of ours do.

    False if the database does not answer: then clients had better wait for us.
    """
    own_host = socket.gethostname()[:255]
    try:
        webs = RunningProcess.objects.running().filter(kind="web")
        found = list(webs.values_list("host", "pid"))
    except (DatabaseError, InterfaceError):
        return False
    finally:
        connections.close_all()
    # The row of a killed process of ours remains for some seconds.
    return any(host != own_host or _runs(pid) for host, pid in found)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
