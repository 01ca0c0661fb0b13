"""Runs one server in this process until it is stopped."""

import asyncio
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial

from processes.server import (
    database_preparation,
    health_probe,
    listening_socket,
    replicas,
    stop_limits,
)
from processes.server.server_plan import ServerPlan
from processes.supervision import orphan_cleanup, run_state
from processes.supervision.pidfile import PidFile
from processes.supervision.run_state import RunRecord
from processes.supervision.state_directory import StateDir
from processes.supervision.stop_signals import StopSignals
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
        """Called once, in a thread, when the server answers."""

    def serve(self, limit_seconds: float | None) -> None:
        """Run until a stop signal; return once all processes have ended.

        Raises `AlreadyRunning`, `AddressTaken` or, if the server does not answer within
        the limit, `StartFailed`.
        """
        asyncio.run(self._serve(limit_seconds))

    async def _serve(self, limit_seconds: float | None) -> None:
        signals = StopSignals()
        pid_file = PidFile(self.state.pid)
        pid_file.acquire()
        try:
            _stop_orphans(self.state)
            is_shared = await asyncio.to_thread(replicas.serve_elsewhere)
            # First, because a port in use is the most likely error.
            with (
                listening_socket.open_socket(
                    self.plan.host, self.plan.port, is_shared=is_shared
                ) as listening,
                self._local_port(),
            ):
                # In a thread, because Django allows no queries beside an event loop.
                await asyncio.to_thread(database_preparation.prepare)
                await self._supervise(signals, listening, limit_seconds)
        finally:
            self.state.record.unlink(missing_ok=True)
            pid_file.release()

    async def _supervise(
        self,
        signals: StopSignals,
        listening: socket.socket,
        limit_seconds: float | None,
    ) -> None:
        parent_pipe, write_end = os.pipe()
        with (
            closing(os.fdopen(parent_pipe, "rb")),
            closing(os.fdopen(write_end, "wb")),
            tempfile.TemporaryFile() as heartbeats,
        ):
            specs = self.plan.children(
                listening=listening.fileno(),
                parent_pipe=parent_pipe,
                heartbeats=heartbeats.fileno(),
            )
            lost = asyncio.Event()
            supervisor = Supervisor(specs, changed=partial(self._changed, lost))
            releasing = asyncio.create_task(self._release(lost, supervisor, listening))
            try:
                await supervisor.watch(
                    signals,
                    is_answering=lambda: all(
                        map(health_probe.is_answering, self.plan.health_urls)
                    ),
                    announce=lambda: self._announce(self._describe(supervisor)),
                    limit_seconds=limit_seconds,
                )
            finally:
                # From now on new connections are refused instead of waiting in vain.
                releasing.cancel()
                listening.close()
                await supervisor.stop(
                    signals,
                    seconds=self._stop_seconds(supervisor),
                    last_seconds=stop_limits.LAST_SECONDS,
                )

    def _stop_seconds(self, supervisor: Supervisor) -> float:
        """Return the time of web and worker, which follows edits of the YAML."""
        if not supervisor.is_serving:
            return stop_limits.UNSERVED_SECONDS
        return max(self.plan.stop_seconds, self.plan.edited_stop_seconds())

    def _local_port(self) -> AbstractContextManager[object]:
        port = self.plan.local_model_port
        return nullcontext() if port is None else listening_socket.reserve_port(port)

    async def _release(
        self, lost: asyncio.Event, supervisor: Supervisor, listening: socket.socket
    ) -> None:
        """Refuse connections while no web process runs here, but others elsewhere.

        The last one's clients wait in the backlog instead, so none is lost.
        """
        while True:
            await lost.wait()
            lost.clear()
            is_bound = listening.getsockname()[1] != 0
            if is_bound and not await asyncio.to_thread(replicas.serve_elsewhere):
                continue
            if supervisor.serves():
                continue
            try:
                listening_socket.refuse_connections(
                    listening, self.plan.host, self.plan.port
                )
            except OSError as exc:
                logger.warning("cannot listen on port %d: %s", self.plan.port, exc)

    def _changed(self, lost: asyncio.Event, supervisor: Supervisor) -> None:
        self._publish(supervisor)
        if supervisor.is_serving and not supervisor.serves():
            lost.set()

    def _publish(self, supervisor: Supervisor) -> None:
        run_state.write_record(self.state.record, self._describe(supervisor))

    def _describe(self, supervisor: Supervisor) -> RunRecord:
        records = (child.record for child in supervisor.children)
        return RunRecord(
            pid=os.getpid(),
            config=str(self.plan.config_path),
            url=self.plan.url,
            local_model_url=self.plan.local_model_url,
            is_detached=_is_log_output(self.state),
            is_serving=supervisor.is_serving,
            children=tuple(each for each in records if each.has_started),
            lacks_broker=self.plan.background.lacks_broker,
            stops_by=supervisor.stops_by,
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


def _is_log_output(state: StateDir) -> bool:
    """Return whether stderr is the log file, as for a background server."""
    try:
        return os.path.samestat(os.fstat(sys.stderr.fileno()), state.log.stat())
    except (OSError, ValueError):
        return False
