"""Tells the other processes which circuits open and close, through Redis.

A process that finds a provider failing saves the others from finding out, too. Without
Redis each process has its own circuits.
"""

import asyncio
import contextlib
import logging
import uuid

from django.conf import settings
from pydantic import BaseModel, Field, ValidationError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from core.errors import public_text
from core.runtime.backoff import Backoff
from providers.resilience import circuit_breaker
from providers.resilience.circuit_breaker import MAX_KEY_OPEN_SECONDS, Circuit
from providers.transport import endpoint_pool

CHANNEL = "coulisse:circuits"
TIMEOUT_SECONDS = 2.0
LISTEN_SECONDS = 30.0
"""How long to wait for a message before the connection is checked."""
MAX_QUEUED = 1_000

logger = logging.getLogger(__name__)

_process = uuid.uuid4().hex


class Announcement(BaseModel):
    """The state of a circuit in one process."""

    process: str
    circuit: str
    """Its shared key."""
    is_open: bool
    seconds: float = Field(ge=0)
    """The rest of the time that it is open."""
    failures: int = Field(0, ge=0)
    is_recoverable: bool
    error: str


async def run() -> None:
    """Share the circuits of this process until cancelled."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes] = asyncio.Queue()

    def send(message: bytes) -> None:
        if queue.qsize() < MAX_QUEUED:
            queue.put_nowait(message)

    def announce(circuit: Circuit) -> None:
        # Calls of providers may run on another event loop, in another thread.
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(send, _describe(circuit))

    client = Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=TIMEOUT_SECONDS,
        socket_timeout=None,
        health_check_interval=30,
    )
    circuit_breaker.observers.append(announce)
    try:
        async with client, asyncio.TaskGroup() as tasks:
            tasks.create_task(_publish(client, queue))
            tasks.create_task(_listen(client))
    finally:
        circuit_breaker.observers.remove(announce)


def _describe(circuit: Circuit) -> bytes:
    seconds = 0.0
    if circuit.open_until is not None:
        seconds = max(0.0, circuit.open_until - circuit_breaker.now())
    announcement = Announcement(
        process=_process,
        circuit=circuit.shared_key,
        is_open=circuit.open_until is not None,
        seconds=seconds,
        failures=circuit.failures,
        is_recoverable=circuit.is_recoverable,
        error=public_text(circuit.last_error or ""),
    )
    return announcement.model_dump_json().encode()


async def _publish(client: Redis, queue: asyncio.Queue[bytes]) -> None:
    while True:
        message = await queue.get()
        # The others find out by themselves.
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await client.publish(CHANNEL, message)


async def _listen(client: Redis) -> None:
    backoff = Backoff(minimum=0.5, maximum=30.0)
    while True:
        try:
            async with client.pubsub(ignore_subscribe_messages=True) as subscription:
                await subscription.subscribe(CHANNEL)
                while True:
                    message = await subscription.get_message(timeout=LISTEN_SECONDS)
                    backoff.reset()
                    if message is not None:
                        _follow(message["data"])
        except (RedisError, OSError, TimeoutError) as exc:
            logger.debug("circuits are not shared: %s", exc)
            await asyncio.sleep(backoff.next_seconds())


def _follow(data: bytes) -> None:
    """Apply what another process has found."""
    try:
        message = Announcement.model_validate_json(data)
    except ValidationError:
        logger.warning("ignored a message on %s of another version", CHANNEL)
        return
    seconds = min(message.seconds, MAX_KEY_OPEN_SECONDS)
    # An open circuit whose time is over says nothing new.
    if message.process == _process or (message.is_open and not seconds):
        return
    for circuit in endpoint_pool.find_circuits(message.circuit):
        circuit.follow(
            seconds,
            message.error,
            failures=message.failures,
            is_recoverable=message.is_recoverable,
        )
