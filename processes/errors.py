"""What can go wrong when the server is started, watched or stopped."""

from core.errors import Invalid, Unavailable


class AlreadyRunning(Unavailable):
    """The server is already running."""

    def __init__(self, pid: int, remedy: str = "") -> None:
        super().__init__(f"already running (pid {pid}){remedy}")
        self.pid = pid


class AddressTaken(Unavailable):
    """The address of the server cannot be listened on."""


class StartFailed(Unavailable):
    """The server did not come up."""


class ServerStillRunning(Unavailable):
    """The server did not stop."""


class NotRunning(Unavailable):
    """The server is not running."""


class OtherConfigRunning(Invalid):
    """The server that runs has another YAML."""


class PackagesMissing(Invalid):
    """The local model needs packages that are not installed."""


class StateUnwritable(Unavailable):
    """The state directory cannot be written to."""


class ResetRefused(Invalid):
    """The database cannot be deleted."""


class ProgramStartFailed(Unavailable):
    """A program cannot be started."""


class SchemaUnknown(Invalid):
    """The tables of the database are not those of this version or an earlier one."""
