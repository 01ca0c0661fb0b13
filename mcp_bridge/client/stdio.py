"""A server that is a child process: lines of JSON on its input and output.

Written here and not taken from the SDK, whose own reads lines of any length, keeps
nothing of what the child says on its standard error and leaves it behind when we are
killed.
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
"""Of a line of standard error: far more than is logged of it."""
MAX_LAST_LINES = 10
"""Lines of a child's standard error that are told when it dies at its start."""

STDERR_DRAIN_SECONDS = 0.1
"""How long the end of standard error is waited for; a grandchild may hold it open."""

GRACE_SECONDS = 1.0
"""How long a child may take to go after its input was closed."""
POLL_SECONDS = 0.01
WATCH_SECONDS = 0.5
"""How often a child is looked at whose output does not end with it."""

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class OnEnd(Protocol):
    """Hears why a session ended that nobody ended, and what was printed last."""

    def __call__(self, reason: str, last_lines: Sequence[str] = (), /) -> None: ...


@asynccontextmanager
async def connect(
    address: ServerTarget, on_end: OnEnd
) -> AsyncIterator[TransportStreams]:
    """Start the child and exchange messages with it; it is gone afterwards.

    `on_end` is told why when the child ends first, and what it printed last. Raises
    `ServerUnreachable` when the command cannot be started.
    """
    process = await _start(address)
    said = _StderrLog(address)
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
            tasks.start_soon(said.listen, process)
            tasks.start_soon(_read, process, send_in, said, on_end)
            tasks.start_soon(_write, process, receive_out)
            tasks.start_soon(_watch, process)
            yield receive_in, send_out
            await _close_stdin(process)
            tasks.cancel_scope.cancel()
    finally:
        # Without waiting for anything: we may have been cancelled.
        _kill_group(process)
        with anyio.CancelScope(shield=True):
            await _wait_for_exit(process, GRACE_SECONDS)
        GUARD.forget(process.pid)
        _close_pipes(process)


def _kill_group(process: Process) -> None:
    """Kill the child and whatever it started that is still in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _start(address: ServerTarget) -> Process:
    folder = address.folder / (address.server.cwd or "")
    environment = get_default_environment() | {
        name: value.get_secret_value() for name, value in address.server.env.items()
    }
    if address.token is not None:
        environment[TOKEN_VARIABLE] = address.token
    command = _find(address, folder, environment)
    try:
        process = await asyncio.create_subprocess_exec(
            *_with_parent_death_signal(command, address.server.args),
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
            f"the MCP server '{address.name}' cannot start",
            server=address.name,
            detail=str(reason),
        ) from exc
    GUARD.watch(process.pid)
    return process


def _find(address: ServerTarget, folder: Path, environment: dict[str, str]) -> str:
    """Return the path of the command; raise `ServerUnreachable` when there is none."""
    name = address.server.command or ""
    if not folder.is_dir():
        raise ServerUnreachable(
            f"the MCP server '{address.name}' cannot start",
            server=address.name,
            detail=f"its cwd '{address.server.cwd}' is not a folder",
        )
    # A path is seen from where the command runs.
    where = str(folder / name) if os.sep in name else name
    found = shutil.which(where, path=environment.get("PATH"))
    if found is None:
        raise ServerUnreachable(
            f"the MCP server '{address.name}' cannot start",
            server=address.name,
            detail=f"its command '{name}' is not there, or cannot be run",
        )
    return found


def _with_parent_death_signal(command: str, arguments: Iterable[str]) -> list[str]:
    if sys.platform != "linux":
        return [command, *arguments]
    wrapper = [sys.executable, "-I", "-S", pdeathsig_exec.__file__, str(os.getpid())]
    return [*wrapper, command, *arguments]


class _StderrLog:
    """What a child says that is no message: it goes to the log."""

    def __init__(self, address: ServerTarget) -> None:
        self._name = address.name
        # Line by line, as a key of many lines is written.
        lines = (line for secret in address.secrets for line in secret.splitlines())
        self._secrets = sorted(
            {*redaction.strong_secrets(lines)}, key=len, reverse=True
        )
        self._last: deque[str] = deque(maxlen=MAX_LAST_LINES)
        self.is_answering = False
        """Whether a message has come yet."""
        self.is_silent = asyncio.Event()
        """Set when there is no more to be read."""

    async def listen(self, process: Process) -> None:
        """Log the child's standard error until it ends."""
        stream = _require_stream(process.stderr)
        rest = b""
        while piece := await stream.read(4096):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self.add(line)
            # What is so long loses its end; to part it might part a secret.
            rest = rest[:MAX_READ_BYTES]
        if rest:
            self.add(rest)
        self.is_silent.set()

    def add(self, line: bytes) -> None:
        """Log one line, without the secrets the child was given."""
        text = line[:MAX_READ_BYTES].decode("utf-8", "replace").rstrip()
        # Before it is cut, which would leave the half of a secret.
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = text[:MAX_LOGGED_LENGTH]
        if text:
            self._last.append(text)
            logger.debug("mcp server '%s' says: %s", self._name, text)

    def last(self) -> list[str]:
        """Return the last lines, for operators to see."""
        return [redaction.redact_all(line) for line in self._last]

    def warn(self) -> None:
        """Tell the last lines of a child that died before it answered."""
        if self._last and not self.is_answering:
            lines = "\n  ".join(self._last)
            logger.warning(
                "mcp server '%s' said last:\n  %s",
                *(self._name, lines),
                extra={"has_lines": True},
            )


async def _read(
    process: Process, into: Incoming, said: _StderrLog, on_end: OnEnd
) -> None:
    stream = _require_stream(process.stdout)
    reason = ""
    async with into:
        try:
            while line := await stream.readline():
                message = _parse_line(line, said)
                if message is not None:
                    said.is_answering = True
                    await into.send(message)
        except ValueError:
            reason = f"sent more than {MAX_LINE_BYTES // 1024**2} MB at once"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # Nobody listens any more.
        if not reason:
            await _wait_for_exit(process, GRACE_SECONDS)
        # Said before the stream closes, which is what wakes those who wait.
        with anyio.move_on_after(STDERR_DRAIN_SECONDS):
            await said.is_silent.wait()
        on_end(reason or _describe_exit(process), said.last())
        said.warn()


def _parse_line(line: bytes, said: _StderrLog) -> SessionMessage | None:
    try:
        text = line.decode("utf-8", "replace")
        return SessionMessage(_message(text))
    except ValueError:
        pass
    try:
        # Half a surrogate pair, which JavaScript writes of text that was cut.
        whole = json.dumps(json.loads(text), ensure_ascii=False)
        return SessionMessage(_message(whole.encode("utf-8", "replace")))
    except (ValueError, RecursionError):
        said.add(line)
        return None


def _message(text: str | bytes) -> mcp_types.JSONRPCMessage:
    return mcp_types.jsonrpc_message_adapter.validate_json(text, by_name=False)


def _describe_exit(process: Process) -> str:
    if process.returncode is None:
        return "closed its output"
    if process.returncode < 0:
        return f"was killed by {signal.Signals(-process.returncode).name}"
    return f"ended with exit code {process.returncode}"


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
                return  # Its reader tells what happened.


async def _watch(process: Process) -> None:
    """End the output of a child that is gone; its own children may hold it open."""
    while process.returncode is None:
        await anyio.sleep(WATCH_SECONDS)
        GUARD.look()
    await anyio.sleep(GRACE_SECONDS)  # What it said last is read meanwhile.
    _close_pipes(process)


async def _close_stdin(process: Process) -> None:
    """Let the child go by itself, as the protocol has it: its input ends."""
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
