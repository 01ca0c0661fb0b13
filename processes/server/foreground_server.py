"""Runs one server in this process until it is stopped."""

import logging
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext

from django.core.management import call_command
from django.db import DatabaseError, connections

from access.users import user_namespace
from processes.errors import StartFailed
from processes.server import health_probe, listening_socket
from processes.server.server_plan import ServerPlan
from processes.supervision import orphan_cleanup, run_state
from processes.supervision.heartbeat import HeartbeatTable
from processes.supervision.pidfile import PidFile
from processes.supervision.run_state import RunRecord
from processes.supervision.signal_receiver import SignalReceiver
from processes.supervision.state_directory import StateDir
from processes.supervision.supervisor import Supervisor

logger = logging.getLogger(__name__)

ORPHAN_STOP_SECONDS = 9.0
"""Time for a killed server's processes to finish their streams."""


class ForegroundServer:
    """One server: its lock, its socket, its supervisor and its record."""

    def __init__(
        self,
        plan: ServerPlan,
        state: StateDir,
        *,
        announce: Callable[[RunRecord], None],
    ) -> None:
        self.plan = plan
        self.state = state
        self._announce = announce
        """Called once, when the server answers."""
        self._is_announced = False

    def serve(self, limit_seconds: float | None) -> None:
        """Run until a stop signal; return once all processes have ended.

        Raises `AlreadyRunning`, `AddressTaken` or, if the server does not answer within
        the limit, `StartFailed`.
        """
        pid_file = PidFile(self.state.pid)
        with SignalReceiver() as signals:
            pid_file.acquire()
            try:
                _stop_orphans(self.state)
                # First, because a port in use is the most likely error.
                with (
                    listening_socket.open_socket(
                        self.plan.host, self.plan.port
                    ) as listening,
                    self._local_port(),
                ):
                    _migrate()
                    _establish_namespace()
                    self._supervise(signals, listening, limit_seconds)
            finally:
                self.state.record.unlink(missing_ok=True)
                pid_file.release()

    def _supervise(
        self,
        signals: SignalReceiver,
        listening: socket.socket,
        limit_seconds: float | None,
    ) -> None:
        parent_pipe, write_end = os.pipe()
        with (
            closing(os.fdopen(parent_pipe, "rb")),
            closing(os.fdopen(write_end, "wb")),
            tempfile.TemporaryFile() as heartbeats,
        ):
            children = self.plan.children(
                listening=listening.fileno(),
                parent_pipe=parent_pipe,
                heartbeats=heartbeats.fileno(),
            )
            supervisor = Supervisor(
                children, HeartbeatTable(heartbeats.fileno()), changed=self._publish
            )
            try:
                supervisor.watch(
                    signals,
                    is_answering=self._is_answering,
                    limit_seconds=limit_seconds,
                )
            finally:
                # From now on new connections are refused instead of waiting in vain.
                listening.close()
                supervisor.stop(signals)

    def _local_port(self) -> AbstractContextManager[object]:
        port = self.plan.local_model_port
        return nullcontext() if port is None else listening_socket.reserve_port(port)

    def _is_answering(self) -> bool:
        return all(map(health_probe.is_answering, self.plan.health_urls))

    def _publish(self, supervisor: Supervisor) -> None:
        run = self._describe(supervisor)
        try:
            run_state.write_record(self.state.record, run)
        except OSError as exc:
            # A full disk must not stop a server that still answers.
            logger.warning("cannot write %s: %s", self.state.record, exc)
        if supervisor.is_serving and not self._is_announced:
            self._is_announced = True
            self._announce(run)

    def _describe(self, supervisor: Supervisor) -> RunRecord:
        now = time.monotonic()
        records = [child.record() for child in supervisor.children]
        waiting = [child.waiting_record(now) for child in supervisor.children]
        return RunRecord(
            pid=os.getpid(),
            config=str(self.plan.config_path),
            url=self.plan.url,
            local_model_url=self.plan.local_model_url,
            is_detached=_is_log_output(self.state),
            is_serving=supervisor.is_serving,
            children=tuple(child for child in records if child is not None),
            lacks_broker=self.plan.background.lacks_broker,
            waiting=tuple(child for child in waiting if child is not None),
        )


def _stop_orphans(state: StateDir) -> None:
    """Stop the processes of a killed supervisor; call only with the lock held."""
    record = run_state.read_record(state.record)
    if record is None:
        return
    for child in orphan_cleanup.end_processes(
        record.children, grace_seconds=ORPHAN_STOP_SECONDS
    ):
        logger.warning("stopped %s (pid %d) of a killed server", child.name, child.pid)


def _migrate() -> None:
    """Apply the migrations, and close the connections afterwards."""
    try:
        call_command("migrate", verbosity=0, interactive=False)
    except DatabaseError as exc:
        reason = " ".join(str(exc).split())
        raise StartFailed(f"cannot use the database: {reason}") from exc
    finally:
        connections.close_all()


def _establish_namespace() -> None:
    """Raise `NamespaceMismatch` for a namespace that would hide every user's memory."""
    try:
        user_namespace.establish()
    finally:
        connections.close_all()


def _is_log_output(state: StateDir) -> bool:
    """Return whether stderr is the log file, as for a background server."""
    try:
        return os.path.samestat(os.fstat(sys.stderr.fileno()), state.log.stat())
    except (OSError, ValueError):
        return False
