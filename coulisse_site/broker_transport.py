"""kombu's way to Redis, with one client per channel, and safe if Redis ends.

kombu builds a client for each message and each acknowledgement, though a client is only
a wrapper of the channel's pool.
"""

from contextlib import suppress
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError


class QoS(redis.QoS):
    """The messages that a channel has received and not acknowledged."""

    def restore_unacked(self, client: Any = None) -> None:
        """Put them back, unless Redis is gone.

        Recovery publishes their permits again.
        """
        with suppress(RedisError):
            super().restore_unacked(client)


class Channel(redis.Channel):
    """Keeps the client of its pool."""

    QoS = QoS
    _kept_client: Any = None

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        # kombu acknowledges messages of `no_ack` queues, too, which it does not keep.
        if delivery_tag in (self.qos._delivered or ()):
            super().basic_ack(delivery_tag, multiple=multiple)

    def _create_client(self, asynchronous: bool = False) -> Any:
        create = super()._create_client  # type: ignore[misc]  # missing in the stubs
        if asynchronous:
            return create(asynchronous=True)
        try:
            pool = self.pool
        except AttributeError as exc:
            # Of a connection that is closed. Celery handles only lost ones: this error
            # would end the worker, and the tasks that it runs.
            raise ConnectionLost("The connection to Redis is closed") from exc
        # A lost connection closes the pool, and the next use opens another.
        if self._kept_client is None or self._kept_client.connection_pool != pool:
            self._kept_client = create()
        return self._kept_client


class Transport(redis.Transport):
    Channel = Channel


def install() -> None:
    """Use it for the URLs of Redis, with and without TLS."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:{Transport.__name__}"
