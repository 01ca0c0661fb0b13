"""Runs the YAML's sidecars: `python -m processes.sidecars` or `coulisse sidecars`.

An edit of the YAML starts new sidecars, stops removed ones and restarts changed ones;
the others keep running.
"""

import asyncio
import logging.config
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from django.conf import settings

from config.config import SERVER
from config.loading import last_valid_copy, loader, reader
from config.sections import Config
from core.child_processes.process_group import GUARD, group_members
from core.child_processes.program import kill_group
from core.errors import CoulisseError
from processes.config import SIDECARS, SidecarConfig
from processes.server import listening_socket
from processes.sidecar_control import sidecar_process, sidecar_records
from processes.supervision import (
    orphan_cleanup,
    parent_watch,
    run_state,
    state_directory,
)
from processes.supervision.child import Child, outer_environment
from processes.supervision.log_pipe import OutputLine
from processes.supervision.pidfile import PidFile
from processes.supervision.state_directory import StateDir
from processes.supervision.stop_signals import StopSignals
from telemetry.log_output import logs

FORCE_EXIT_SECONDS = 9.5
ORPHAN_STOP_SECONDS = 2.0
POLL_SECONDS = 0.5
"""How long an edit that a web process has accepted goes unnoticed."""
URL_VARIABLE = "COULISSE_URL"
"""The variable that passes the server's address to a sidecar."""

logger = logging.getLogger("processes.sidecars")


class SidecarManager:
    """All sidecars, which follow the YAML and restart requests."""

    def __init__(self, files: StateDir, outer: dict[str, str]) -> None:
        self._files = files
        self._outer = outer
        self._configs: dict[str, SidecarConfig] = {}
        self._sidecars: dict[str, Child] = {}
        self._written_lines: dict[str, list[OutputLine]] = {}
        """The output lines that were written to the file last."""

    async def apply_config(
        self, configs: Mapping[str, SidecarConfig], restarted: Collection[str] = ()
    ) -> None:
        """Run these sidecars and no others; restart those that changed or are named."""
        before, self._configs = self._configs, dict(configs)
        kept = {
            name: child
            for name, child in self._sidecars.items()
            if configs.get(name) == before[name] and name not in restarted
        }
        await asyncio.gather(
            *(each.stop() for name, each in self._sidecars.items() if name not in kept)
        )
        self._sidecars = {
            name: kept[name] if name in kept else self._start(config)
            for name, config in configs.items()
        }
        self._publish()

    async def poll(self) -> None:
        """Handle restart requests, and write new output to the file."""
        requested = sidecar_records.take_requests(self._files)
        names = [name for name in requested if name in self._sidecars]
        for name in names:
            fields = {"sidecar": name}
            logger.info("sidecar=%s restart requested", name, extra={"fields": fields})
        if names:
            await self.apply_config(self._configs, names)
        self._publish_lines()

    async def stop(self) -> None:
        await self.apply_config({})

    def _start(self, config: SidecarConfig) -> Child:
        spec = sidecar_process.sidecar_spec(config, self._outer)
        child = Child(spec, changed=self._publish)
        child.start()
        return child

    def _publish_lines(self) -> None:
        lines = {
            name: list(sidecar.spec.output.lines)
            for name, sidecar in self._sidecars.items()
            if sidecar.spec.output is not None
        }
        if lines != self._written_lines:
            self._written_lines = lines
            path, adapter = self._files.sidecar_lines, sidecar_records.LINES_ADAPTER
            run_state.write_json(path, adapter, lines)

    def _publish(self) -> None:
        records = [sidecar.record for sidecar in self._sidecars.values()]
        sidecar_records.write_record(self._files.sidecars, os.getpid(), records)


def run() -> None:
    """Run the sidecars until SIGTERM.

    Raises `AlreadyRunning` if another process runs them, and `ConfigInvalid` if the
    YAML is invalid.
    """
    files = state_directory.current_state()
    lock = PidFile(files.sidecars_pid)
    lock.acquire()
    try:
        stop_orphans(files)
        sidecar_records.take_requests(files)  # The previous process received them.
        asyncio.run(_serve(files))
    finally:
        files.sidecars.unlink(missing_ok=True)
        files.sidecar_lines.unlink(missing_ok=True)
        lock.release()


def stop_orphans(files: StateDir) -> None:
    """Stop the sidecars of a killed process."""
    record = sidecar_records.read_record(files.sidecars)
    if record is None:
        return
    ended = orphan_cleanup.end_processes(
        record.sidecars, grace_seconds=ORPHAN_STOP_SECONDS
    )
    for each in record.sidecars:
        if each.pid is None:
            continue
        # The kernel may have killed a sidecar, but not its children.
        if each in ended or _has_live_children(each.name, each.pid):
            kill_group(each.pid)
            logger.warning(
                "sidecar=%s stopped (pid %d), left running by a killed process",
                each.name,
                each.pid,
                extra={"fields": {"sidecar": each.name}},
            )


def _has_live_children(name: str, pid: int) -> bool:
    """Return whether children of a dead sidecar are alive, by its name in their
    environment.

    The group's id alone is not enough: another group may use it by now.
    """
    with suppress(psutil.Error):
        return any(
            each.environ().get(sidecar_process.NAME) == name
            for each in group_members(pid)
        )
    return False


async def _serve(files: StateDir) -> None:
    signals = StopSignals()
    content = last_valid_copy.read_copy() or reader.read_file(
        Path(settings.COULISSE_CONFIG)
    )
    config = _sidecar_config(content)
    sidecars = SidecarManager(files, sidecar_environment(config))
    while not signals.requested.is_set():
        configs = config.get(SIDECARS)
        await sidecars.apply_config(configs)
        content = await _wait_for_edit(content, signals.requested, sidecars)
        config = _sidecar_config(content)
    await sidecars.stop()
    GUARD.close()


def _sidecar_config(content: bytes) -> Config:
    return loader.parse_sections(content, (SERVER, SIDECARS))


async def _wait_for_edit(
    content: bytes, stopping: asyncio.Event, sidecars: SidecarManager
) -> bytes:
    """Return the next content of the YAML, or the same when it is time to stop.

    Only content that a web process has accepted counts, because it validates the whole
    YAML. This process reads only its own section, and so needs a third of the memory.
    """
    while not await _is_set_within(POLL_SECONDS, stopping):
        await sidecars.poll()
        current = last_valid_copy.read_copy()
        if current is not None and current != content:
            return current
    return content


async def _is_set_within(seconds: float, event: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


def sidecar_environment(config: Config) -> dict[str, str]:
    """Return the environment of every sidecar, without its own `env`."""
    server = config.get(SERVER)
    url = f"http://{listening_socket.reachable_host(server.bind)}:{server.port}"
    return {**outer_environment(str(settings.BASE_DIR)), URL_VARIABLE: url}


def main() -> None:
    parent_watch.watch_command_line_pipe(grace_seconds=FORCE_EXIT_SECONDS)
    logs.capture_python_output()
    logging.config.dictConfig(settings.LOGGING)
    try:
        run()
    except CoulisseError as exc:
        raise SystemExit(str(exc)) from exc


if __name__ == "__main__":
    main()
