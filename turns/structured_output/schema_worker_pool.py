"""The pool of child processes that compile clients' schemas and check replies.

Each child limits its memory and CPU time (`schema_worker`). A child that takes too long
is killed and replaced.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from django.conf import settings

from core.child_processes.process_group import ProcessGroup
from core.child_processes.program import Program, ProgramStartFailed
from turns.errors import SchemaChecksBusy

CHECK_SECONDS = 3.0
START_SECONDS = 30.0
"""Timeout until a new child responds: it imports a library, and the machine may be
busy.
"""
MAX_WAIT_SECONDS = 30.0
"""Timeout until a child is free."""
MAX_CHILDREN = 4
"""Maximum children that work at the same time."""
MAX_IDLE = 2
MAX_WAITING = 32
"""Maximum schemas of new requests in the queue; further ones are refused with 503."""
MAX_LINE_BYTES = 64 * 1024

CheckResult = tuple[str | None, str | None]
"""The error of the schema, and of the value."""

logger = logging.getLogger(__name__)


class CheckTooCostly(Exception):
    """Compiling or checking exceeds a limit; the message names it: time or memory."""


class _WorkerBroken(Exception):
    """A child ended or sent a malformed response."""


@dataclass(eq=False, slots=True)
class _WorkerPool:
    """The children of one event loop."""

    slots: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MAX_CHILDREN)
    )
    idle: list[ProcessGroup] = field(default_factory=list)
    waiting: int = 0


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _WorkerPool] = WeakKeyDictionary()


async def compile_error(schema: bytes) -> str | None:
    """Return the error of a schema, or None.

    Raises `CheckTooCostly`; `SchemaChecksBusy` if too many requests wait.
    """
    pool = _current_pool()
    if pool.slots.locked() and pool.waiting >= MAX_WAITING:
        raise SchemaChecksBusy
    error, _ = await _check(pool, schema, b"")
    return error


async def first_error(schema: bytes, value: bytes) -> str | None:
    """Return the error of a value, or of the schema, or None.

    Raises as `compile_error` does, but waits however long the queue is: the value is
    the reply of a model that was paid.
    """
    error, mismatch = await _check(_current_pool(), schema, value)
    return error or mismatch


async def close() -> None:
    """End the idle children."""
    idle = _current_pool().idle
    while idle:
        await idle.pop().close()


def _current_pool() -> _WorkerPool:
    return _pools.setdefault(asyncio.get_running_loop(), _WorkerPool())


async def _check(pool: _WorkerPool, schema: bytes, value: bytes) -> CheckResult:
    request = b"%d %d\n%b%b" % (len(schema), len(value), schema, value)
    async with _acquire_slot(pool):
        if pool.idle:
            # Earlier work may have filled its memory, so a new child tries again.
            with contextlib.suppress(_WorkerBroken):
                return await _ask_worker(pool, pool.idle.pop(), request)
        try:
            return await _ask_worker(pool, await _start_worker(), request)
        except _WorkerBroken as exc:
            raise CheckTooCostly("memory") from exc


@asynccontextmanager
async def _acquire_slot(pool: _WorkerPool) -> AsyncGenerator[None]:
    """Wait until a child may work; hand the slot to the next request at the end."""
    if pool.slots.locked():
        await _wait_for_slot(pool)
    else:
        await pool.slots.acquire()
    try:
        yield
    finally:
        pool.slots.release()


async def _wait_for_slot(pool: _WorkerPool) -> None:
    pool.waiting += 1
    try:
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            await pool.slots.acquire()
    except TimeoutError as exc:
        raise SchemaChecksBusy from exc
    finally:
        pool.waiting -= 1


async def _ask_worker(
    pool: _WorkerPool, child: ProcessGroup, request: bytes
) -> CheckResult:
    """Return a child's response; any error ends the child."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            result = await _exchange(child, request)
    except (ConnectionError, ValueError) as exc:
        await child.close()
        if child.exit_code == -signal.SIGXCPU:
            raise CheckTooCostly("time") from exc
        raise _WorkerBroken from exc
    except TimeoutError as exc:
        await child.close()
        raise CheckTooCostly("time") from exc
    except BaseException:
        await child.close()
        raise
    if len(pool.idle) < MAX_IDLE:
        pool.idle.append(child)
    else:
        await child.close()
    return result


async def _start_worker() -> ProcessGroup:
    """Return a new child that is ready; raises `SchemaChecksBusy`."""
    try:
        child = await ProcessGroup.start(
            _worker_program(), stdin=PIPE, stdout=PIPE, limit=MAX_LINE_BYTES
        )
        await _wait_until_ready(child)
    except (ConnectionError, ProgramStartFailed, TimeoutError, ValueError) as exc:
        logger.exception("schema worker did not start")
        raise SchemaChecksBusy from exc
    return child


def _worker_program() -> Program:
    # Its environment has no secrets.
    path = os.pathsep.join([str(settings.BASE_DIR), *sys.path])
    words = ("-P", "-m", "turns.structured_output.schema_worker")
    return Program(
        sys.executable, words, settings.BASE_DIR, {"PYTHONPATH": path}, is_ours=True
    )


async def _wait_until_ready(child: ProcessGroup) -> None:
    try:
        async with asyncio.timeout(START_SECONDS):
            memory_error = await _read_line(child)
    except BaseException:
        await child.close()
        raise
    if memory_error is not None:
        _warn_unlimited(memory_error)


@cache
def _warn_unlimited(reason: str) -> None:
    logger.warning(
        "schemas of response_format are checked without a memory limit: %s", reason
    )


async def _exchange(child: ProcessGroup, request: bytes) -> CheckResult:
    if child.stdin is None:
        raise ConnectionError
    child.stdin.write(request)
    await child.stdin.drain()
    error, mismatch = await _read_line(child)
    return error, mismatch


async def _read_line(child: ProcessGroup) -> Any:
    if child.stdout is None:
        raise ConnectionError
    # An empty line means that the child ended.
    return orjson.loads(await child.stdout.readline())
