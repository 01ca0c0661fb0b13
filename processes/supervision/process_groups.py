"""Programs that run in process groups of their own, on an event loop.

No program outlives this process: a guard process kills them when it ends, and so does
the kernel on Linux.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

from mcp_bridge.client import pdeathsig_exec
from mcp_bridge.client.process_guard import ProcessGuard
from processes.errors import ProgramStartFailed
from processes.supervision import orphan_cleanup
from processes.supervision.log_pipe import OutputPipe, Stream

POLL_SECONDS = 0.02
REAP_SECONDS = 1.0

OnLine = Callable[[Stream, bytes], None]


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run, with its folder and environment."""

    command: str
    args: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


def find_program(program: Program) -> str:
    """Return the path of a program; raises `ProgramStartFailed` if it is missing."""
    if not program.folder.is_dir():
        raise ProgramStartFailed(f"its cwd '{program.folder}' is not a folder")
    name = program.command
    # A path is relative to the program's folder.
    path = str(program.folder / name) if os.sep in name else name
    found = shutil.which(path, path=program.environment.get("PATH"))
    if found is None:
        raise ProgramStartFailed(f"its command '{name}' is missing or not executable")
    return found


class ProcessGroup:
    """A process, and the processes that it started in its group."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        pipes: Sequence[OutputPipe],
        closed: Callable[["ProcessGroup"], None],
    ) -> None:
        self.pid = process.pid
        self.created_at = orphan_cleanup.created_at(process.pid)
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The exit code, once the process itself has ended. Wait for it with
        `asyncio.wait`, which does not cancel it."""
        self._process = process
        self._pipes = pipes
        self._closed = closed

    def poll(self) -> None:
        """Set `ended` if the process has ended."""
        code = self._process.poll()
        if code is not None and not self.ended.done():
            self.ended.set_result(code)

    async def end(self, seconds: float) -> bool:
        """Terminate the group, and kill the rest; return whether there was a rest."""
        try:
            orphan_cleanup.terminate_group(self.pid)
            async with asyncio.timeout(seconds):
                await asyncio.wait({self.ended})
                # No event reports the end of a group's last process.
                while orphan_cleanup.has_group(self.pid):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
            return False
        except TimeoutError:
            return True
        finally:
            self.close()

    def close(self) -> None:
        """Kill the rest of the group, and read the rest of its output."""
        orphan_cleanup.kill_group(self.pid)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(REAP_SECONDS)
        self.poll()
        for pipe in self._pipes:
            pipe.close()
        self._closed(self)


class ProcessGroups:
    """Starts programs and detects their ends; use it as a context manager."""

    def __enter__(self) -> "ProcessGroups":
        self._guard = ProcessGuard()
        self._running: set[ProcessGroup] = set()
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGCHLD, self._poll)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for group in list(self._running):
            group.close()
        self._loop.remove_signal_handler(signal.SIGCHLD)
        self._guard.close()

    def start(self, program: Program, on_line: OnLine | None = None) -> ProcessGroup:
        """Start a program; `on_line` receives each line of its output.

        Raises `ProgramStartFailed`.
        """
        argv = _with_parent_death_signal(find_program(program), program.args)
        pipes = {} if on_line is None else _pipes(on_line)
        writers = {stream: pipe.writer for stream, pipe in pipes.items()}
        try:
            process = subprocess.Popen(
                argv,
                cwd=program.folder,
                env=program.environment,
                stdin=subprocess.DEVNULL,
                stdout=writers.get("stdout", subprocess.DEVNULL),
                stderr=writers.get("stderr", subprocess.DEVNULL),
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            _close(pipes.values())
            reason = exc.strerror if isinstance(exc, OSError) else str(exc)
            raise ProgramStartFailed(str(reason)) from exc
        finally:
            for writer in writers.values():
                os.close(writer)
        self._guard.watch(process.pid)
        group = ProcessGroup(process, tuple(pipes.values()), self._remove)
        self._running.add(group)
        return group

    def _poll(self) -> None:
        self._guard.ensure_running()
        for group in self._running:
            group.poll()

    def _remove(self, group: ProcessGroup) -> None:
        self._running.discard(group)
        self._guard.forget(group.pid)


def _pipes(on_line: OnLine) -> dict[Stream, OutputPipe]:
    streams: tuple[Stream, ...] = ("stdout", "stderr")
    return {stream: OutputPipe(partial(on_line, stream)) for stream in streams}


def _close(pipes: Iterable[OutputPipe]) -> None:
    for pipe in pipes:
        pipe.close()


def _with_parent_death_signal(command: str, arguments: Iterable[str]) -> list[str]:
    """Return the command line with which the kernel kills the command when we end."""
    if sys.platform != "linux":
        return [command, *arguments]
    wrapper = [sys.executable, "-I", "-S", pdeathsig_exec.__file__, str(os.getpid())]
    return [*wrapper, command, *arguments]
