"""The child processes that check replies against schemas with references."""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Any

import orjson
from django.conf import settings

CHECK_SECONDS = 3.0
MAX_IDLE = 2
MAX_LINE_BYTES = 16 * 1024 * 1024

_idle: list[Process] = []


class TooCostly(Exception):
    """Checking a reply against the schema takes too long."""


async def first_error(schema: Any, value: Any) -> str | None:
    """Return what is wrong with a value, or None.

    Raises `TooCostly` when it takes more than `CHECK_SECONDS`; the child is then ended.
    """
    child = _idle.pop() if _idle else await _start()
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            answer = await _ask(child, orjson.dumps([schema, value]) + b"\n")
    except (TimeoutError, ConnectionError, ValueError) as exc:
        await _end(child)
        raise TooCostly from exc
    except BaseException:
        await _end(child)
        raise
    if len(_idle) < MAX_IDLE:
        _idle.append(child)
    else:
        await _end(child)
    error: str | None = answer
    return error


async def close() -> None:
    """End the children that wait for work."""
    while _idle:
        await _end(_idle.pop())


async def _start() -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "turns.schema_check"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=MAX_LINE_BYTES,
        env={**os.environ, "PYTHONPATH": str(settings.BASE_DIR)},
    )


async def _ask(child: Process, line: bytes) -> Any:
    if child.stdin is None or child.stdout is None:
        raise ConnectionError
    child.stdin.write(line)
    await child.stdin.drain()
    # An empty line is the end of a child that broke.
    return orjson.loads(await child.stdout.readline())


async def _end(child: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    await child.wait()
