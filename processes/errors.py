"""Errors of starting, supervising and stopping the server."""

from core.errors import Invalid, Unavailable


class AlreadyRunning(Unavailable):
    """The server is already running."""

    def __init__(self, pid: int, remedy: str = "") -> None:
        super().__init__(f"already running (pid {pid}){remedy}")
        self.pid = pid


class AddressTaken(Unavailable):
    """The server cannot listen on its address."""


class StartFailed(Unavailable):
    """The server did not start."""


class ServerStillRunning(Unavailable):
    """The server did not stop."""


class NotRunning(Unavailable):
    """The server is not running."""


class OtherConfigRunning(Invalid):
    """The running server uses another YAML."""


class PackagesMissing(Invalid):
    """The local model needs packages that are not installed."""


class StateUnwritable(Unavailable):
    """The state directory cannot be written to."""


class ResetRefused(Invalid):
    """The database cannot be deleted."""


class SchemaUnknown(Invalid):
    """This version cannot upgrade the tables of the database."""
