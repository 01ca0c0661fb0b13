"""Runs the YAML's sidecars: `python -m processes.sidecars` or `manage.py sidecars`.

An edit of the YAML starts what is new, stops what is gone and starts again what is
another than before; the others run on.
"""

import argparse
import asyncio
import logging
import os
import signal
from collections.abc import Iterable, Mapping, Sequence

import django
from django.conf import settings

from config import live
from config.config import SERVER
from config.sections import Config
from core.errors import CoulisseError
from processes import leftovers, lifeline, listener, sidecar, sidecar_record, state
from processes.child import outer_environment
from processes.config import SIDECARS, SidecarConfig
from processes.groups import Groups
from processes.pidfile import PidFile
from processes.sidecar import Sidecar
from processes.state import StateDir
from telemetry import logs

HARD_END_SECONDS = 9.5
LEFTOVER_SECONDS = 2.0
URL = "COULISSE_URL"
"""The variable that tells a sidecar where the server is."""

logger = logging.getLogger("processes.sidecars")


class Sidecars:
    """All of them, and the tasks that keep them running."""

    def __init__(self, groups: Groups, files: StateDir, outer: dict[str, str]) -> None:
        self._groups = groups
        self._files = files
        self._outer = outer
        self._kept: dict[str, Sidecar] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def adopt(self, wanted: Mapping[str, SidecarConfig]) -> None:
        """Run these and no others."""
        await self._stop(
            name for name, kept in self._kept.items() if wanted.get(name) != kept.config
        )
        kept = self._kept
        self._kept = {
            name: kept[name] if name in kept else self._new(config)
            for name, config in wanted.items()
        }
        for name in wanted.keys() - kept.keys():
            self._tasks[name] = asyncio.create_task(self._kept[name].run())
            self._tasks[name].add_done_callback(_tell_fault)
        self._publish()

    async def stop(self) -> None:
        """End them all."""
        await self._stop(self._kept)

    def _new(self, config: SidecarConfig) -> Sidecar:
        program = sidecar.program(config, self._outer)
        return Sidecar(config, program, self._groups, changed=self._publish)

    async def _stop(self, names: Iterable[str]) -> None:
        names = list(names)
        tasks = [self._tasks.pop(name) for name in names]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for name in names:
            del self._kept[name]

    def _publish(self) -> None:
        path = self._files.sidecars
        records = [kept.record for kept in self._kept.values()]
        try:
            sidecar_record.write(path, os.getpid(), records)
        except OSError as exc:
            # A full disk must not stop what runs.
            logger.warning("cannot write %s: %s", path, exc)


def _tell_fault(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        logger.error("a sidecar is no longer watched", exc_info=fault)


def run() -> None:
    """Run the sidecars until SIGTERM.

    Raises `AlreadyRunning` when another process does.
    """
    live.start()
    files = state.current()
    lock = PidFile(files.sidecars_pid)
    lock.acquire()
    try:
        end_leftovers(files)
        asyncio.run(_serve(files))
    finally:
        files.sidecars.unlink(missing_ok=True)
        lock.release()


def end_leftovers(files: StateDir) -> None:
    """End what a killed process like this one left running."""
    left = sidecar_record.read(files.sidecars)
    if left is None:
        return
    processes = [each.process for each in left.sidecars if each.process is not None]
    for ended in leftovers.end(processes, grace_seconds=LEFTOVER_SECONDS):
        logger.warning(
            "sidecar=%s (pid %d), left by a killed process, was ended",
            *(ended.name, ended.pid),
            extra={"fields": {"sidecar": ended.name}},
        )


async def _serve(files: StateDir) -> None:
    loop = asyncio.get_running_loop()
    stopping, awake = asyncio.Event(), asyncio.Event()

    def stop() -> None:
        stopping.set()
        awake.set()

    def look(config: Config, changed: Sequence[str]) -> None:
        loop.call_soon_threadsafe(awake.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    watcher = live.Watcher(look)
    watcher.start()
    with Groups() as groups:
        sidecars = Sidecars(groups, files, environment(live.current()))
        while not stopping.is_set():
            awake.clear()
            wanted = live.current().get(SIDECARS)
            await sidecars.adopt(wanted)
            await awake.wait()
        await sidecars.stop()
    watcher.stop()


def environment(config: Config) -> dict[str, str]:
    """Return what every sidecar sees, beside what its own `env` says."""
    server = config.get(SERVER)
    url = f"http://{listener.reachable_host(server.bind)}:{server.port}"
    return {**outer_environment(str(settings.BASE_DIR)), URL: url}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lifeline", type=int, required=True)
    arguments = parser.parse_args()
    lifeline.hold(arguments.lifeline, grace_seconds=HARD_END_SECONDS)
    logs.take_over()
    django.setup()
    try:
        run()
    except CoulisseError as exc:
        raise SystemExit(exc.message) from exc


if __name__ == "__main__":
    main()
