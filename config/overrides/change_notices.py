"""Tells the other processes through Redis that the studio's overrides have changed.

Without Redis, each process asks the database at every poll; with it, only after a
notice, and now and then in case that one was lost.
"""

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import PubSub

CHANNEL = "coulisse:overrides"
TIMEOUT_SECONDS = 0.5
"""How long an edit, or the thread that follows edits, waits for a Redis that hangs."""
ASK_SECONDS = 5.0
"""Longest time between two questions to the database."""
RECONNECT_SECONDS = 5.0

logger = logging.getLogger(__name__)


def _connect() -> "Redis":
    # Commands that change nothing need not load it.
    from redis import Redis

    return Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=TIMEOUT_SECONDS,
        socket_timeout=TIMEOUT_SECONDS,
        health_check_interval=30,
    )


def publish() -> None:
    """Tell the other processes; they find out by themselves if Redis is unavailable."""
    from redis.exceptions import RedisError

    with suppress(RedisError, OSError), _connect() as client:
        client.publish(CHANNEL, b"")


class ChangeNotices:
    """The notices that one thread receives."""

    def __init__(self) -> None:
        self._client: Redis | None = None
        self._subscription: PubSub | None = None
        self._reconnect_at = 0.0
        self._ask_at = 0.0

    def is_question_due(self) -> bool:
        """Return whether to ask the database now; waits for no notice."""
        is_noticed, now = self._read(), time.monotonic()
        if self._subscription is not None and not is_noticed and now < self._ask_at:
            return False
        self._ask_at = now + ASK_SECONDS
        return True

    def close(self) -> None:
        subscription, client = self._subscription, self._client
        self._subscription = self._client = None
        with suppress(OSError):
            if subscription is not None:
                subscription.close()
            if client is not None:
                client.close()

    def _read(self) -> bool:
        """Return whether there were notices, or may have been before a connection."""
        from redis.exceptions import RedisError

        try:
            if self._subscription is None:
                return self._subscribe()
            is_noticed = False
            while self._subscription.get_message():
                is_noticed = True
            return is_noticed
        except (RedisError, OSError) as exc:
            logger.debug("no notices of changed overrides: %s", exc)
            self.close()
            return True

    def _subscribe(self) -> bool:
        if time.monotonic() < self._reconnect_at:
            return True
        self._reconnect_at = time.monotonic() + RECONNECT_SECONDS
        self._client = _connect()
        subscription: PubSub = self._client.pubsub()  # type: ignore[no-untyped-call]
        subscription.subscribe(CHANNEL)
        self._subscription = subscription
        return True
