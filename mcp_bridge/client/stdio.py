"""A server that is a child process: lines of JSON on its input and output.

This replaces the SDK's transport, which reads lines of any length, discards the child's
standard error, and leaves the child behind when this process is killed.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from core.text import redaction
from mcp_bridge.client import pdeathsig_exec
from mcp_bridge.client.process_guard import ProcessGuard
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.errors import ServerUnreachable

logger = logging.getLogger(__name__)

GUARD = ProcessGuard()
"""Ends the children of this process, and theirs, when it is killed."""

TOKEN_VARIABLE = "MCP_OAUTH_TOKEN"  # noqa: S105 (a name)

MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_LOGGED_LENGTH = 500
MAX_READ_BYTES = 64 * 1024
"""Per line of standard error: far more than the log shows."""
MAX_LAST_LINES = 10
"""The last lines of standard error to report when a child dies at its start."""

STDERR_DRAIN_SECONDS = 0.1
"""How long to wait for the end of standard error; a grandchild may hold it open."""

GRACE_SECONDS = 1.0
"""How long a child may take to exit after its input is closed."""
POLL_SECONDS = 0.01
WATCH_SECONDS = 0.5
"""The poll interval for a dead child whose output is still open."""

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class OnEnd(Protocol):
    """Receives why a session ended by itself, and the last lines printed."""

    def __call__(self, reason: str, last_lines: Sequence[str] = (), /) -> None: ...


@asynccontextmanager
async def connect(
    target: ServerTarget, on_end: OnEnd
) -> AsyncIterator[TransportStreams]:
    """Start the child and exchange messages with it; end it on exit.

    `on_end` receives the reason and the last lines if the child ends first. Raises
    `ServerUnreachable` if the command cannot be started.
    """
    process = await _start_process(target)
    stderr_log = _StderrLog(target)
    send_in, receive_in = anyio.create_memory_object_stream[SessionMessage | Exception](
        0
    )
    send_out, receive_out = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with (
            send_in,
            receive_in,
            send_out,
            receive_out,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(stderr_log.follow, process)
            tasks.start_soon(_read, process, send_in, stderr_log, on_end)
            tasks.start_soon(_write, process, receive_out)
            tasks.start_soon(_watch, process)
            yield receive_in, send_out
            await _close_stdin(process)
            tasks.cancel_scope.cancel()
    finally:
        # No await here: the task may be cancelled.
        _kill_group(process)
        with anyio.CancelScope(shield=True):
            await _wait_for_exit(process, GRACE_SECONDS)
        GUARD.forget(process.pid)
        _close_pipes(process)


def _kill_group(process: Process) -> None:
    """Kill the child and all processes in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _start_process(target: ServerTarget) -> Process:
    folder = target.folder / (target.server.cwd or "")
    environment = get_default_environment() | {
        name: value.get_secret_value() for name, value in target.server.env.items()
    }
    if target.token is not None:
        environment[TOKEN_VARIABLE] = target.token
    command = _find_command(target, folder, environment)
    try:
        process = await asyncio.create_subprocess_exec(
            *_with_parent_death_signal(command, target.server.args),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=folder,
            env=environment,
            limit=MAX_LINE_BYTES,
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise ServerUnreachable(
            f"the MCP server '{target.name}' cannot start",
            server=target.name,
            detail=str(reason),
        ) from exc
    GUARD.watch(process.pid)
    return process


def _find_command(
    target: ServerTarget, folder: Path, environment: dict[str, str]
) -> str:
    """Return the path of the command; raise `ServerUnreachable` if it is missing."""
    name = target.server.command or ""
    if not folder.is_dir():
        raise ServerUnreachable(
            f"the MCP server '{target.name}' cannot start",
            server=target.name,
            detail=f"cwd '{target.server.cwd}' is not a folder",
        )
    # A relative path starts at the command's working directory.
    program = str(folder / name) if os.sep in name else name
    found = shutil.which(program, path=environment.get("PATH"))
    if found is None:
        raise ServerUnreachable(
            f"the MCP server '{target.name}' cannot start",
            server=target.name,
            detail=f"the command '{name}' does not exist or is not executable",
        )
    return found


def _with_parent_death_signal(command: str, arguments: Iterable[str]) -> list[str]:
    if sys.platform != "linux":
        return [command, *arguments]
    wrapper = [sys.executable, "-I", "-S", pdeathsig_exec.__file__, str(os.getpid())]
    return [*wrapper, command, *arguments]


class _StderrLog:
    """Logs a child's standard error."""

    def __init__(self, target: ServerTarget) -> None:
        self._name = target.name
        # Line by line, as a key of many lines is written.
        lines = (line for secret in target.secrets for line in secret.splitlines())
        self._secrets = sorted(
            {*redaction.strong_secrets(lines)}, key=len, reverse=True
        )
        self._last_lines: deque[str] = deque(maxlen=MAX_LAST_LINES)
        self.is_answering = False
        """Whether the child has sent a message."""
        self.has_ended = asyncio.Event()
        """Set at the end of standard error."""

    async def follow(self, process: Process) -> None:
        """Log the child's standard error until it ends."""
        stream = _require_stream(process.stderr)
        rest = b""
        while piece := await stream.read(4096):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self.add(line)
            # Long lines are cut, because splitting might split a secret.
            rest = rest[:MAX_READ_BYTES]
        if rest:
            self.add(rest)
        self.has_ended.set()

    def add(self, line: bytes) -> None:
        """Log one line, without the secrets the child was given."""
        text = line[:MAX_READ_BYTES].decode("utf-8", "replace").rstrip()
        # Before the cut, which could leave part of a secret.
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = text[:MAX_LOGGED_LENGTH]
        if text:
            self._last_lines.append(text)
            logger.debug("mcp server '%s' stderr: %s", self._name, text)

    def last_lines(self) -> list[str]:
        """Return the last lines, for operators."""
        return [redaction.redact_all(line) for line in self._last_lines]

    def warn_of_exit(self) -> None:
        """Log the last lines of a child that died before it answered."""
        if self._last_lines and not self.is_answering:
            lines = "\n  ".join(self._last_lines)
            logger.warning(
                "mcp server '%s' exited without a response; its last lines:\n  %s",
                self._name,
                lines,
                extra={"has_lines": True},
            )


async def _read(
    process: Process, into: Incoming, stderr_log: _StderrLog, on_end: OnEnd
) -> None:
    stream = _require_stream(process.stdout)
    reason = ""
    async with into:
        try:
            while line := await stream.readline():
                message = _parse_line(line, stderr_log)
                if message is not None:
                    stderr_log.is_answering = True
                    await into.send(message)
        except ValueError:
            reason = f"sent more than {MAX_LINE_BYTES // 1024**2} MB in one line"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # The reader is gone.
        if not reason:
            await _wait_for_exit(process, GRACE_SECONDS)
        # Reported before the stream closes, which wakes the waiting callers.
        with anyio.move_on_after(STDERR_DRAIN_SECONDS):
            await stderr_log.has_ended.wait()
        on_end(reason or _describe_exit(process), stderr_log.last_lines())
        stderr_log.warn_of_exit()


def _parse_line(line: bytes, stderr_log: _StderrLog) -> SessionMessage | None:
    try:
        text = line.decode("utf-8", "replace")
        return SessionMessage(_message(text))
    except ValueError:
        pass
    try:
        # Lone surrogates, which JavaScript writes for text that was cut.
        whole = json.dumps(json.loads(text), ensure_ascii=False)
        return SessionMessage(_message(whole.encode("utf-8", "replace")))
    except (ValueError, RecursionError):
        stderr_log.add(line)
        return None


def _message(text: str | bytes) -> mcp_types.JSONRPCMessage:
    return mcp_types.jsonrpc_message_adapter.validate_json(text, by_name=False)


def _describe_exit(process: Process) -> str:
    if process.returncode is None:
        return "closed its output"
    if process.returncode < 0:
        return f"was killed by {signal.Signals(-process.returncode).name}"
    return f"exited with code {process.returncode}"


async def _write(process: Process, outgoing: Outgoing) -> None:
    stdin = process.stdin
    async with outgoing:
        async for item in outgoing:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            if stdin is None or stdin.is_closing():
                return
            stdin.write(text.encode("utf-8", "replace") + b"\n")
            try:
                await stdin.drain()
            except ConnectionError:
                return  # The reader reports the failure.


async def _watch(process: Process) -> None:
    """End the output of a child that is gone; its own children may hold it open."""
    while process.returncode is None:
        await anyio.sleep(WATCH_SECONDS)
        GUARD.ensure_running()
    await anyio.sleep(GRACE_SECONDS)  # Its last output is read meanwhile.
    _close_pipes(process)


async def _close_stdin(process: Process) -> None:
    """Let the child exit by itself, as the protocol specifies: close its input."""
    if process.stdin is not None:
        process.stdin.close()
    await _wait_for_exit(process, GRACE_SECONDS)


async def _wait_for_exit(process: Process, seconds: float) -> bool:
    # Not process.wait(), which waits for the pipes too, and a grandchild may keep
    # those open.
    deadline = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await anyio.sleep(POLL_SECONDS)
    return True


def _close_pipes(process: Process) -> None:
    # Nothing public closes them while a grandchild holds the other ends.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


def _require_stream(stream: asyncio.StreamReader | None) -> asyncio.StreamReader:
    if stream is None:
        raise RuntimeError("the child was started without pipes")
    return stream
