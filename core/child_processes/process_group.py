"""Programs that run in process groups of their own, on an event loop."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, SubprocessStreamProtocol
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

import psutil  # type: ignore[import-untyped]

from core.child_processes import process_identity
from core.child_processes.process_guard import ProcessGuard
from core.child_processes.program import (
    Program,
    ProgramStartFailed,
    kill_group,
    signal_group,
)

GUARD = ProcessGuard()
"""Kills the groups of foreign programs when this process is killed."""

POLL_SECONDS = 0.02
DRAIN_SECONDS = 1.0
"""Time for the last output; a process outside the group may hold the pipes open."""
MAX_LINE_BYTES = 64 * 1024
"""Maximum bytes that are kept of a line of output."""
READ_BYTES = 16 * 1024

Stream = Literal["stdout", "stderr"]
OnLine = Callable[[bytes], None]


class ProcessGroup(SubprocessStreamProtocol):
    """A process, and the processes that it started in its group."""

    pid: int
    created_at: float
    _process: Any

    def __init__(self, program: Program, limit: int) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(limit, loop)
        self.program = program
        self.ended: asyncio.Future[int] = loop.create_future()
        """The exit code, once the process itself has ended. Wait for it with
        `asyncio.wait`, which does not cancel it."""
        self.readers: set[asyncio.Task[None]] = set()
        """The tasks that read its lines; they end with its output."""

    @classmethod
    async def start(
        cls,
        program: Program,
        *,
        stdin: int = DEVNULL,
        stdout: int | None = DEVNULL,
        stderr: int | None = DEVNULL,
        on_line: Mapping[Stream, OnLine] | None = None,
        limit: int = MAX_LINE_BYTES,
    ) -> "ProcessGroup":
        """Start a program; each stream of `on_line` is read in lines.

        Its other pipes are streams with this `limit`; None inherits ours. Raises
        `ProgramStartFailed`.
        """
        on_line = on_line or {}
        try:
            _, group = await asyncio.get_running_loop().subprocess_exec(
                lambda: cls(program, limit),
                *program.command_line(),
                stdin=stdin,
                stdout=PIPE if "stdout" in on_line else stdout,
                stderr=PIPE if "stderr" in on_line else stderr,
                cwd=program.folder,
                env=program.environment,
                pass_fds=program.descriptors,
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            raise ProgramStartFailed.of(exc) from exc
        if not program.is_ours:
            GUARD.watch(group.pid)
        group.readers = {
            asyncio.create_task(_read_lines(getattr(group, stream), receive))
            for stream, receive in on_line.items()
        }
        return group

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # asyncio's reference disappears with the last pipe.
        self._process = transport
        self.pid = self._process.get_pid()
        self.created_at = process_identity.created_at(self.pid)

    def process_exited(self) -> None:
        self.ended.set_result(self._process.get_returncode())
        super().process_exited()

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self.ended.result() if self.ended.done() else None

    async def wait(self, seconds: float) -> int | None:
        """Return the exit code, or None if the process runs longer."""
        await asyncio.wait({self.ended}, timeout=seconds)
        return self.exit_code

    async def end(self, seconds: float) -> bool:
        """Terminate the group, and kill the rest; return whether there was a rest."""
        try:
            self._terminate()
            async with asyncio.timeout(seconds):
                await asyncio.wait({self.ended})
                # No event reports the end of a group's last process.
                while not self.program.is_ours and has_group(self.pid):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
            return False
        except TimeoutError:
            return True
        finally:
            await self.close()

    async def close(self) -> None:
        """Kill the rest of the group, and read the rest of its output."""
        kill_group(self.pid)
        try:
            awaited: set[asyncio.Future[Any]] = {self.ended, *self.readers}
            await asyncio.wait(awaited, timeout=DRAIN_SECONDS)
        finally:
            if not self.program.is_ours:
                GUARD.forget(self.pid)
            self.close_pipes()

    def close_pipes(self) -> None:
        """Drop the rest of its output, which other processes may hold open."""
        with suppress(PermissionError):
            self._process.close()

    def _terminate(self) -> None:
        if not self.program.is_ours:
            signal_group(self.pid, signal.SIGTERM)
        elif not self.ended.done():
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)


class LineSplitter:
    """Calls `on_line` with each line; the rest of an overlong one is dropped."""

    def __init__(self, on_line: Callable[[bytes], None], max_bytes: int) -> None:
        self._on_line = on_line
        self._max_bytes = max_bytes
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        *lines, rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._on_line(line[: self._max_bytes])
        # Cut, not split into several lines, which might split a secret.
        self._rest = rest[: self._max_bytes]

    def finish(self) -> None:
        """Report an incomplete last line."""
        if self._rest:
            self._on_line(self._rest)
        self._rest = b""


async def _read_lines(stream: asyncio.StreamReader, receive: OnLine) -> None:
    lines = LineSplitter(receive, MAX_LINE_BYTES)
    with suppress(OSError):
        while piece := await stream.read(READ_BYTES):
            lines.feed(piece)
    lines.finish()


def has_group(pid: int) -> bool:
    """Return whether the process group that this process leads or led has members."""
    return next(group_members(pid), None) is not None


def group_members(group: int) -> Iterator[psutil.Process]:
    """Yield the live processes of a process group.

    A group also contains zombies until their parent reaps them; in some containers, no
    parent does.
    """
    for pid in psutil.pids():
        with suppress(OSError, psutil.NoSuchProcess):
            if os.getpgid(pid) == group and not process_identity.is_zombie(
                process := psutil.Process(pid)
            ):
                yield process
