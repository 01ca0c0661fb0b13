"""The `limits` of a provider: the most that all processes together ask of it.

The counts are in Redis: a set of the calls that run, with leases that end if a process
dies, and two token buckets that fill within a minute, of requests and of tokens. A call
beyond the limits waits: first come, first served in each process. Without Redis
the limits are not enforced.
"""

import asyncio
import contextlib
import logging
import math
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from django.conf import settings
from redis.asyncio import Redis
from redis.exceptions import RedisError

from providers.config import ProviderConfig, ProviderLimits
from providers.errors import ProviderBusy

LEASE_SECONDS = 30.0
"""When a call ends whose process no longer renews it."""
RENEW_SECONDS = 10.0
POLL_SECONDS = 0.05
"""How soon a process sees that a call of another one has ended."""
TIMEOUT_SECONDS = 2.0
WARN_SECONDS = 60.0

COMMON = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local permit, lease = ARGV[1], tonumber(ARGV[2])
local calls, requests, tokens = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local function used(key)
  return math.max(0, tonumber(redis.call('GET', key) or '0') - now)
end
local function use(key, amount, limit)
  local total = used(key) + amount * 60000 / limit
  local full_at = string.format('%.3f', now + total)
  redis.call('SET', key, full_at, 'PX', math.ceil(total) + 1000)
end
"""
ACQUIRE = (
    COMMON
    + """
local wait = 0
if requests > 0 then wait = used(KEYS[2]) + 60000 / requests - 60000 end
if tokens > 0 then wait = math.max(wait, used(KEYS[3]) - 60000) end
if calls > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now)
  if redis.call('ZCARD', KEYS[1]) >= calls then wait = math.max(wait, 1) end
end
if wait > 0.01 then return math.ceil(wait) end
if requests > 0 then use(KEYS[2], 1, requests) end
if calls > 0 then
  redis.call('ZADD', KEYS[1], now + lease, permit)
  redis.call('PEXPIRE', KEYS[1], lease)
end
return 0
"""
)
"""Returns 0 with a permit, else the milliseconds until there may be one."""
RELEASE = (
    COMMON
    + """
redis.call('ZREM', KEYS[1], permit)
if tokens > 0 then use(KEYS[3], tonumber(ARGV[6]), tokens) end
"""
)
RENEW = (
    COMMON
    + """
redis.call('ZADD', KEYS[1], 'XX', now + lease, permit)
redis.call('PEXPIRE', KEYS[1], lease)
"""
)

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Permit:
    """The right to one call; `release` gives it back."""

    limiter: "_Limiter"
    provider: str
    limits: ProviderLimits
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def release(self, tokens: int = 0) -> None:
        """End the call, which used so many tokens."""
        self.limiter.release(self, tokens)


@dataclass(slots=True)
class _Queue:
    """The calls of one provider that wait in this process."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the first of them."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    length: int = 0


class _Limiter:
    """The limits as one event loop sees them."""

    def __init__(self) -> None:
        self._client = Redis.from_url(
            settings.REDIS_URL,
            socket_connect_timeout=TIMEOUT_SECONDS,
            socket_timeout=TIMEOUT_SECONDS,
        )
        self._queues: dict[str, _Queue] = defaultdict(_Queue)
        self._permits: set[Permit] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        """Permits on their way back."""
        self._renewal: asyncio.Task[None] | None = None
        self._warned_at = -math.inf

    async def acquire(self, permit: Permit, seconds: float) -> None:
        """Wait for a permit; raise `ProviderBusy` if the queue is full or too slow."""
        queue = self._queues[permit.provider]
        self._permits.add(permit)
        try:
            if self._tasks:
                await asyncio.wait([*self._tasks])
            # Calls that wait already come first.
            if queue.turn.locked() or await self._missing_seconds(permit):
                await self._wait_in_queue(permit, queue, seconds)
        except BaseException:
            # It may have been granted meanwhile.
            self.release(permit, 0)
            raise
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew())

    async def _wait_in_queue(
        self, permit: Permit, queue: _Queue, seconds: float
    ) -> None:
        if queue.length >= permit.limits.queue:
            raise _busy(permit, f"{queue.length} calls wait already")
        queue.length += 1
        try:
            async with asyncio.timeout(seconds), queue.turn:
                while missing := await self._missing_seconds(permit):
                    queue.released.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(max(missing, POLL_SECONDS)):
                            await queue.released.wait()
        except TimeoutError:
            raise _busy(permit, f"the call waited for {seconds:g} s") from None
        finally:
            queue.length -= 1

    async def _missing_seconds(self, permit: Permit) -> float:
        """Return 0 with a permit, else the time until there may be one."""
        try:
            milliseconds = await self._run(ACQUIRE, permit)
        except (RedisError, OSError) as exc:
            if time.monotonic() - self._warned_at > WARN_SECONDS:
                self._warned_at = time.monotonic()
                name = permit.provider
                logger.warning("limits of provider '%s' do not apply: %s", name, exc)
            return 0.0
        return int(milliseconds) / 1000

    def release(self, permit: Permit, tokens: int) -> None:
        self._permits.discard(permit)
        task = asyncio.create_task(self._release(permit, tokens))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _release(self, permit: Permit, tokens: int) -> None:
        with contextlib.suppress(RedisError, OSError):
            await self._run(RELEASE, permit, tokens)
        self._queues[permit.provider].released.set()

    async def _renew(self) -> None:
        while self._permits:
            await asyncio.sleep(RENEW_SECONDS)
            for permit in [*self._permits]:
                with contextlib.suppress(RedisError, OSError):
                    await self._run(RENEW, permit)

    async def _run(self, script: str, permit: Permit, *more: int) -> int:
        limits = permit.limits
        prefix = f"coulisse:provider:{permit.provider}"
        keys = [f"{prefix}:calls", f"{prefix}:requests", f"{prefix}:tokens"]
        maxima = (
            limits.concurrent_calls,
            limits.requests_per_minute,
            limits.tokens_per_minute,
        )
        lease = int(LEASE_SECONDS * 1000)
        numbers = [lease, *(each or 0 for each in maxima), *more]
        result: int = await self._client.eval(
            script, len(keys), *keys, permit.id, *numbers
        )
        return result

    async def close(self) -> None:
        """Give all permits back."""
        if self._renewal is not None:
            self._renewal.cancel()
        for permit in [*self._permits]:
            self.release(permit, 0)
        await asyncio.gather(*self._tasks)
        await self._client.aclose()


_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, _Limiter] = WeakKeyDictionary()


async def acquire(
    name: str, provider: ProviderConfig, *, has_fallback: bool = False
) -> Permit | None:
    """Wait until a call to a provider is within its limits; None without limits.

    Raises `ProviderBusy` if the queue is full, or the wait too long.
    """
    limits = provider.limits
    if not limits.has_any:
        return None
    loop = asyncio.get_running_loop()
    limiter = _limiters.get(loop)
    if limiter is None:
        limiter = _limiters[loop] = _Limiter()
    permit = Permit(limiter, name, limits)
    await limiter.acquire(permit, limits.longest_wait(has_fallback=has_fallback))
    return permit


async def close() -> None:
    """Give the permits of this event loop back, and close its connection."""
    limiter = _limiters.pop(asyncio.get_running_loop(), None)
    if limiter is not None:
        await limiter.close()


def _busy(permit: Permit, reason: str) -> ProviderBusy:
    name = permit.provider
    return ProviderBusy(
        f"provider '{name}' is at its limits (providers.{name}.limits): {reason}",
        provider=name,
        retry_after_seconds=1.0,
    )
