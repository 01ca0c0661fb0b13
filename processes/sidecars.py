"""Runs the YAML's sidecars: `python -m processes.sidecars` or `manage.py sidecars`.

An edit of the YAML starts new sidecars, stops removed ones and restarts changed ones;
the others keep running.
"""

import asyncio
import logging.config
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from django.conf import settings

from config.config import SERVER
from config.loading import last_valid_copy, loader, reader
from config.sections import Config
from core.errors import CoulisseError
from processes.config import SIDECARS, SidecarConfig
from processes.server import listening_socket
from processes.sidecar_control import restart_requests, sidecar_process, sidecar_records
from processes.sidecar_control.sidecar_process import SidecarProcess
from processes.supervision import orphan_cleanup, parent_watch, state_directory
from processes.supervision.child_process import outer_environment
from processes.supervision.log_pipe import OutputLine
from processes.supervision.pidfile import PidFile
from processes.supervision.process_groups import ProcessGroups
from processes.supervision.run_state import ChildRecord
from processes.supervision.state_directory import StateDir
from telemetry.log_output import logs

FORCE_EXIT_SECONDS = 9.5
ORPHAN_STOP_SECONDS = 2.0
POLL_SECONDS = 0.5
"""How long an edit that a web process has accepted goes unnoticed."""
URL_VARIABLE = "COULISSE_URL"
"""The variable that passes the server's address to a sidecar."""

logger = logging.getLogger("processes.sidecars")


class SidecarManager:
    """All sidecars, and the asyncio tasks that keep them running."""

    def __init__(
        self, groups: ProcessGroups, files: StateDir, outer: dict[str, str]
    ) -> None:
        self._groups = groups
        self._files = files
        self._outer = outer
        self._sidecars: dict[str, SidecarProcess] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._written_lines: dict[str, list[OutputLine]] = {}
        """The output lines that were written to the file last."""

    async def apply_config(self, configs: Mapping[str, SidecarConfig]) -> None:
        """Run these sidecars and no others."""
        await self._stop(
            name
            for name, sidecar in self._sidecars.items()
            if configs.get(name) != sidecar.config
        )
        unchanged = self._sidecars
        self._sidecars = {
            name: unchanged[name] if name in unchanged else self._build_process(config)
            for name, config in configs.items()
        }
        self._start(configs.keys() - unchanged.keys())
        self._publish()

    async def poll(self) -> None:
        """Handle restart requests, and write new output to the file."""
        names = [
            name
            for name in restart_requests.take_requests(self._files)
            if name in self._sidecars
        ]
        if names:
            await self._restart(names)
        self._publish_lines()

    async def _restart(self, names: Sequence[str]) -> None:
        before = self._sidecars
        for name in names:
            fields = {"sidecar": name}
            logger.info("sidecar=%s restart requested", name, extra={"fields": fields})
        await self._stop(names)
        self._sidecars = {
            name: self._build_process(sidecar.config) if name in names else sidecar
            for name, sidecar in before.items()
        }
        self._start(names)
        self._publish()

    def _start(self, names: Iterable[str]) -> None:
        for name in names:
            self._tasks[name] = asyncio.create_task(self._sidecars[name].run())
            self._tasks[name].add_done_callback(_log_failure)

    async def stop(self) -> None:
        """Stop all sidecars."""
        await self._stop(self._sidecars)

    def _build_process(self, config: SidecarConfig) -> SidecarProcess:
        program = sidecar_process.sidecar_program(config, self._outer)
        return SidecarProcess(config, program, self._groups, changed=self._publish)

    async def _stop(self, names: Iterable[str]) -> None:
        names = list(names)
        tasks = [self._tasks.pop(name) for name in names]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._sidecars = {
            name: sidecar
            for name, sidecar in self._sidecars.items()
            if name not in names
        }

    def _publish_lines(self) -> None:
        lines = {
            name: list(sidecar.output.lines) for name, sidecar in self._sidecars.items()
        }
        if lines == self._written_lines:
            return
        self._written_lines = lines
        try:
            sidecar_records.write_lines(self._files.sidecar_lines, lines)
        except OSError as exc:
            logger.warning("cannot write %s: %s", self._files.sidecar_lines, exc)

    def _publish(self) -> None:
        path = self._files.sidecars
        records = [sidecar.record for sidecar in self._sidecars.values()]
        try:
            sidecar_records.write_record(path, os.getpid(), records)
        except OSError as exc:
            # A full disk must not stop the sidecars.
            logger.warning("cannot write %s: %s", path, exc)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a sidecar is no longer supervised", exc_info=error)


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
        restart_requests.take_requests(files)  # The previous process received them.
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
    processes = [each.process for each in record.sidecars if each.process is not None]
    ended = orphan_cleanup.end_processes(processes, grace_seconds=ORPHAN_STOP_SECONDS)
    # The kernel may have killed a sidecar, but not its children.
    ended += [
        each for each in processes if each not in ended and _has_live_children(each)
    ]
    for each in ended:
        orphan_cleanup.kill_group(each.pid)
        logger.warning(
            "sidecar=%s stopped (pid %d), left running by a killed process",
            each.name,
            each.pid,
            extra={"fields": {"sidecar": each.name}},
        )


def _has_live_children(child: ChildRecord) -> bool:
    """Return whether children of a dead sidecar are alive, by its name in their
    environment.

    The group's id alone is not enough: another group may use it by now.
    """
    members = orphan_cleanup.group_members(child.pid)
    with suppress(psutil.Error):
        return any(
            each.environ().get(sidecar_process.NAME) == child.name for each in members
        )
    return False


async def _serve(files: StateDir) -> None:
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    content = last_valid_copy.read_copy() or reader.read_file(
        Path(settings.COULISSE_CONFIG)
    )
    config = _sidecar_config(content)
    with ProcessGroups() as groups:
        sidecars = SidecarManager(groups, files, sidecar_environment(config))
        while not stopping.is_set():
            configs = config.get(SIDECARS)
            await sidecars.apply_config(configs)
            content = await _wait_for_edit(content, stopping, sidecars)
            config = _sidecar_config(content)
        await sidecars.stop()


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
