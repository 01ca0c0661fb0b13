"""A server that is a child process: lines of JSON on its input and output.

This replaces the SDK's transport, which reads lines of any length, discards the child's
standard error, and leaves the child behind when this process is killed.
"""

import asyncio
import json
import logging
from asyncio.subprocess import PIPE
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from core.child_processes.process_group import ProcessGroup
from core.child_processes.program import Program, ProgramStartFailed, describe_exit
from core.text import redaction
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.errors import ServerUnreachable

logger = logging.getLogger(__name__)

TOKEN_VARIABLE = "MCP_OAUTH_TOKEN"  # noqa: S105 (a name)

MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_LOGGED_LENGTH = 500
MAX_LAST_LINES = 10
"""The last lines of standard error to report when a child dies at its start."""

STDERR_DRAIN_SECONDS = 0.1
"""How long to wait for the end of standard error; a grandchild may hold it open."""

GRACE_SECONDS = 1.0
"""How long a child may take to exit after its input is closed."""

Pipe = TypeVar("Pipe", asyncio.StreamReader, asyncio.StreamWriter)
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
    stderr_log = _StderrLog(target)
    group = await _start(target, stderr_log)
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
            tasks.start_soon(_read, group, send_in, stderr_log, on_end)
            tasks.start_soon(_write, group, receive_out)
            tasks.start_soon(_close_ended, group)
            yield receive_in, send_out
            # The protocol's way to end a server.
            _require_pipe(group.stdin).close()
            await group.wait(GRACE_SECONDS)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await group.close()


async def _start(target: ServerTarget, stderr_log: "_StderrLog") -> ProcessGroup:
    environment = get_default_environment() | {
        name: value.get_secret_value() for name, value in target.server.env.items()
    }
    if target.token is not None:
        environment[TOKEN_VARIABLE] = target.token
    program = Program(
        target.server.command or "",
        target.server.args,
        target.folder / (target.server.cwd or ""),
        environment,
    )
    try:
        return await ProcessGroup.start(
            program,
            stdin=PIPE,
            stdout=PIPE,
            on_line={"stderr": stderr_log.add},
            limit=MAX_LINE_BYTES,
        )
    except ProgramStartFailed as exc:
        raise ServerUnreachable(
            f"the MCP server '{target.name}' cannot start",
            server=target.name,
            detail=exc.message,
        ) from exc


class _StderrLog:
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

    def add(self, line: bytes) -> None:
        """Log one line, without the secrets the child was given."""
        text = line.decode("utf-8", "replace").rstrip()
        # Before the cut, which could leave part of a secret.
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = text[:MAX_LOGGED_LENGTH]
        if text:
            self._last_lines.append(text)
            logger.debug("mcp server '%s' stderr: %s", self._name, text)

    def last_lines(self) -> list[str]:
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
    group: ProcessGroup, into: Incoming, stderr_log: _StderrLog, on_end: OnEnd
) -> None:
    stream = _require_pipe(group.stdout)
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
            await group.wait(GRACE_SECONDS)
        # Reported before the stream closes, which wakes the waiting callers.
        await asyncio.wait(group.readers, timeout=STDERR_DRAIN_SECONDS)
        on_end(reason or _describe_exit(group), stderr_log.last_lines())
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


def _describe_exit(group: ProcessGroup) -> str:
    if group.exit_code is None:
        return "closed its output"
    return f"ended with {describe_exit(group.exit_code)}"


async def _write(group: ProcessGroup, outgoing: Outgoing) -> None:
    stdin = _require_pipe(group.stdin)
    async with outgoing:
        async for item in outgoing:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            if stdin.is_closing():
                return
            stdin.write(text.encode("utf-8", "replace") + b"\n")
            try:
                await stdin.drain()
            except ConnectionError:
                return  # The reader reports the failure.


async def _close_ended(group: ProcessGroup) -> None:
    """End the output of a child that is gone; its own children may hold it open."""
    await asyncio.wait({group.ended})
    await anyio.sleep(GRACE_SECONDS)  # Its last output is read meanwhile.
    group.close_pipes()


def _require_pipe(pipe: Pipe | None) -> Pipe:
    if pipe is None:
        raise RuntimeError("the child was started without pipes")
    return pipe
