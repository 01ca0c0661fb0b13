"""The `limits` of a provider: the most that all processes together ask of it.

The counts are in Redis: a set of the calls that run, with leases that end if a process
dies, and two token buckets that fill within a minute, of requests and of tokens. A call
beyond the limits waits: first come, first served in each process; the first ones of all
processes take turns. Without Redis the limits are not enforced.
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
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from providers.config import ProviderConfig, ProviderLimits
from providers.errors import ProviderBusy

LEASE_SECONDS = 30.0
"""When a call ends whose process no longer renews it."""
RENEW_SECONDS = 10.0
POLL_SECONDS = 0.05
"""How soon a process sees that a call of another one has ended."""
MAX_POLL_SECONDS = 1.0
"""A call that waits for longer asks again, because the limits may have been edited."""
WAITING_SECONDS = 3.0
"""When a waiting call loses its place whose process no longer asks."""
TIMEOUT_SECONDS = 1.0
MAX_CONNECTIONS = 10
AWAY_SECONDS = 5.0
"""How long Redis is not asked after an error."""
WARN_SECONDS = 60.0

KEYS = ("calls", "requests", "tokens", "waiting", "asked")
COMMON = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local permit, lease, more = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[6])
local calls, requests, tokens = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local running, waiting, asked = KEYS[1], KEYS[4], KEYS[5]
local function forget(permit)
  redis.call('ZREM', waiting, permit)
  redis.call('ZREM', asked, permit)
end
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
local wait, is_urgent = 0, more > 0
-- A clock that was set back must not make it longer than a minute.
if requests > 0 then
  wait = math.min(used(KEYS[2]), 60000) + 60000 / requests - 60000
end
if tokens > 0 then wait = math.max(wait, used(KEYS[3]) - 60000) end
if calls > 0 then
  redis.call('ZREMRANGEBYSCORE', running, 0, now)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', asked, 0, now - WAITING_MS)) do
    forget(gone)
  end
  local place = redis.call('ZRANK', waiting, permit) or redis.call('ZCARD', waiting)
  if place >= calls - redis.call('ZCARD', running) then wait = math.max(wait, 1) end
end
if wait > 0.01 and not is_urgent then
  redis.call('ZADD', waiting, 'NX', now, permit)
  redis.call('ZADD', asked, now, permit)
  redis.call('PEXPIRE', waiting, lease)
  redis.call('PEXPIRE', asked, lease)
  return math.ceil(wait)
end
forget(permit)
if requests > 0 then use(KEYS[2], 1, requests) end
if calls > 0 then
  redis.call('ZADD', running, now + lease, permit)
  redis.call('PEXPIRE', running, lease)
end
return 0
"""
).replace("WAITING_MS", str(int(WAITING_SECONDS * 1000)))
"""Returns 0 with a permit, else the milliseconds until there may be one."""
RELEASE = (
    COMMON
    + """
forget(permit)
redis.call('ZREM', running, permit)
if tokens > 0 and more > 0 then use(KEYS[3], more, tokens) end
"""
)
RENEW = (
    COMMON
    + """
redis.call('ZADD', running, now + lease, permit)
redis.call('PEXPIRE', running, lease)
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
    is_granted: bool = False

    def release(self, tokens: int = 0) -> None:
        """End the call, which used so many tokens."""
        self.limiter.release(self, tokens)


@dataclass(slots=True)
class _Queue:
    """The calls of one provider that wait in this process."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the first of them."""
    limits: ProviderLimits = field(default_factory=lambda: ProviderLimits())
    """The newest ones."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    length: int = 0


class _Limiter:
    """The limits as one event loop sees them."""

    def __init__(self) -> None:
        pool = BlockingConnectionPool.from_url(
            settings.REDIS_URL,
            max_connections=MAX_CONNECTIONS,
            timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            # redis-py would use `asyncio.wait_for`, which on Python 3.11 may swallow a
            # cancellation: `_run` has a timeout of its own.
            socket_timeout=None,
        )
        self._client = Redis.from_pool(pool)
        self._queues: dict[str, _Queue] = defaultdict(_Queue)
        self._permits: set[Permit] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        """Permits on their way back."""
        self._renewal: asyncio.Task[None] | None = None
        self._away_until = -math.inf
        self._warned_at = -math.inf

    async def acquire(self, permit: Permit, seconds: float, *, is_urgent: bool) -> None:
        """Wait for a permit; raise `ProviderBusy` if the queue is full or too slow."""
        queue = self._queues[permit.provider]
        queue.limits = permit.limits
        self._permits.add(permit)
        try:
            if self._tasks:
                await asyncio.wait([*self._tasks])
            # Calls that wait already come first.
            has_to_wait = queue.turn.locked() and not is_urgent
            if has_to_wait or await self._missing_seconds(permit, is_urgent=is_urgent):
                await self._wait_in_queue(permit, queue, seconds)
            permit.is_granted = True
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
            raise _busy(permit, f"its queue of {queue.length} is full")
        queue.length += 1
        missing = POLL_SECONDS
        try:
            async with asyncio.timeout(seconds), queue.turn:
                while missing := await self._missing_seconds(permit):
                    queue.released.clear()
                    with contextlib.suppress(TimeoutError):
                        pause = min(max(missing, POLL_SECONDS), MAX_POLL_SECONDS)
                        async with asyncio.timeout(pause):
                            await queue.released.wait()
        except TimeoutError:
            reason = f"the call waited for {seconds:g} s"
            raise _busy(permit, reason, max(1.0, missing)) from None
        finally:
            queue.length -= 1

    async def _missing_seconds(
        self, permit: Permit, *, is_urgent: bool = False
    ) -> float:
        """Return 0 with a permit, else the time until there may be one."""
        try:
            milliseconds = await self._run(ACQUIRE, permit, int(is_urgent))
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
            for permit in [each for each in self._permits if each.is_granted]:
                if permit not in self._permits:
                    continue  # It was given back meanwhile.
                with contextlib.suppress(RedisError, OSError):
                    await self._run(RENEW, permit)

    async def _run(self, script: str, permit: Permit, more: int = 0) -> int:
        """Return the result of a script; raises `RedisError` and OSError."""
        if time.monotonic() < self._away_until:
            raise RedisError("it did not answer")
        limits = self._queues[permit.provider].limits
        prefix = f"coulisse:provider:{permit.provider}"
        keys = [f"{prefix}:{name}" for name in KEYS]
        maxima = (
            limits.concurrent_calls,
            limits.requests_per_minute,
            limits.tokens_per_minute,
        )
        lease = int(LEASE_SECONDS * 1000)
        numbers = [lease, *(each or 0 for each in maxima), more]
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                result: int = await self._client.eval(
                    script, len(keys), *keys, permit.id, *numbers
                )
        except (RedisError, OSError):
            self._away_until = time.monotonic() + AWAY_SECONDS
            raise
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
    name: str,
    provider: ProviderConfig,
    *,
    has_fallback: bool = False,
    is_urgent: bool = False,
) -> Permit | None:
    """Wait until a call to a provider is within its limits; None without limits.

    An urgent call counts, but does not wait. Raises `ProviderBusy` if the queue is
    full, or the wait too long.
    """
    limits = provider.limits
    if not limits.has_any:
        return None
    loop = asyncio.get_running_loop()
    limiter = _limiters.get(loop)
    if limiter is None:
        limiter = _limiters[loop] = _Limiter()
    permit = Permit(limiter, name, limits)
    seconds = limits.longest_wait(has_fallback=has_fallback)
    await limiter.acquire(permit, seconds, is_urgent=is_urgent)
    return permit


async def close() -> None:
    """Give the permits of this event loop back, and close its connection."""
    limiter = _limiters.pop(asyncio.get_running_loop(), None)
    if limiter is not None:
        await limiter.close()


def _busy(permit: Permit, reason: str, seconds: float = 1.0) -> ProviderBusy:
    name = permit.provider
    return ProviderBusy(
        f"provider '{name}' is at its limits: {reason}",
        provider=name,
        detail=f"they are under providers.{name}.limits",
        retry_after_seconds=seconds,
    )
