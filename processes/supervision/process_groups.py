"""Programs that run in process groups of their own, started and ended by a loop.

None outlives this process: a guard kills them when it is killed, and on Linux the
kernel does, too.
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

from mcp_bridge.client import pdeathsig_exec as bound
from mcp_bridge.client.process_guard import ProcessGuard
from processes.errors import ProgramStartFailed
from processes.supervision import orphan_cleanup
from processes.supervision.log_pipe import OutputPipe, Stream

POLL_SECONDS = 0.02
REAP_SECONDS = 1.0

OnLine = Callable[[Stream, bytes], None]


@dataclass(frozen=True, slots=True)
class Program:
    """What is run, and where."""

    command: str
    args: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


def find_program(program: Program) -> str:
    """Return the path of a program; raises `ProgramStartFailed` when there is none."""
    if not program.folder.is_dir():
        raise ProgramStartFailed(f"its cwd '{program.folder}' is not a folder")
    name = program.command
    # A path is seen from where the program runs.
    where = str(program.folder / name) if os.sep in name else name
    found = shutil.which(where, path=program.environment.get("PATH"))
    if found is None:
        raise ProgramStartFailed(f"its command '{name}' is not there, or cannot be run")
    return found


class ProcessGroup:
    """A process, and whatever it started that is still in its group."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        pipes: Sequence[OutputPipe],
        closed: Callable[["ProcessGroup"], None],
    ) -> None:
        self.pid = process.pid
        self.created_at = orphan_cleanup.created_at(process.pid)
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The exit code, once the process itself has ended. To be waited for with
        `asyncio.wait`, which leaves it be."""
        self._process = process
        self._pipes = pipes
        self._closed = closed

    def poll(self) -> None:
        """Notice the end of the process."""
        code = self._process.poll()
        if code is not None and not self.ended.done():
            self.ended.set_result(code)

    async def end(self, seconds: float) -> bool:
        """Ask all of the group to go, and kill what is left; say whether any was."""
        try:
            orphan_cleanup.terminate_group(self.pid)
            async with asyncio.timeout(seconds):
                await asyncio.wait({self.ended})
                # Nobody tells when the last of a group is gone.
                while orphan_cleanup.has_group(self.pid):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
            return False
        except TimeoutError:
            return True
        finally:
            self.close()

    def close(self) -> None:
        """Kill what is left of the group, and hear the rest of what it said."""
        orphan_cleanup.kill_group(self.pid)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(REAP_SECONDS)
        self.poll()
        for pipe in self._pipes:
            pipe.close()
        self._closed(self)


class ProcessGroups:
    """Starts programs and notices their ends; a context that must be entered."""

    def __enter__(self) -> "ProcessGroups":
        self._guard = ProcessGuard()
        self._running: set[ProcessGroup] = set()
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGCHLD, self._look)
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

    def start(self, program: Program, hear: OnLine | None = None) -> ProcessGroup:
        """Run a program, and hand each line of its output over.

        Raises `ProgramStartFailed` when it is not there.
        """
        argv = _with_parent_death_signal(find_program(program), program.args)
        pipes = {} if hear is None else _pipes(hear)
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
            raise ProgramStartFailed(f"it cannot be started: {reason}") from exc
        finally:
            for writer in writers.values():
                os.close(writer)
        self._guard.watch(process.pid)
        group = ProcessGroup(process, tuple(pipes.values()), self._forget)
        self._running.add(group)
        return group

    def _look(self) -> None:
        self._guard.look()
        for group in self._running:
            group.poll()

    def _forget(self, group: ProcessGroup) -> None:
        self._running.discard(group)
        self._guard.forget(group.pid)


def _pipes(hear: OnLine) -> dict[Stream, OutputPipe]:
    streams: tuple[Stream, ...] = ("stdout", "stderr")
    return {stream: OutputPipe(partial(hear, stream)) for stream in streams}


def _close(pipes: Iterable[OutputPipe]) -> None:
    for pipe in pipes:
        pipe.close()


def _with_parent_death_signal(command: str, arguments: Iterable[str]) -> list[str]:
    """Return what runs a command that the kernel kills when we are gone."""
    if sys.platform != "linux":
        return [command, *arguments]
    wrapper = [sys.executable, "-I", "-S", bound.__file__, str(os.getpid())]
    return [*wrapper, command, *arguments]
