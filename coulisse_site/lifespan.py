"""What a web process does when it starts and before it stops."""

import asyncio
import contextlib
import logging
from typing import Any

from access import reloads, user_namespace
from agents import skills
from config import live
from core.errors import CoulisseError
from gateway.handler import Handler
from memory import wake
from providers import client
from studio import crossing, watchers
from turns import lane, price_table, remembering, schema_children, tool_servers
from turns.errors import DatabaseDown

RETRY_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Lifespan:
    """ASGI's lifespan protocol."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        try:
            config = live.start()
            establishing = await _begin_namespace()
            watcher = live.Watcher(reloads.write_down)
            watcher.start()
            skills_watcher = skills.Watcher(config)
            skills_watcher.start()
        except Exception as exc:
            await send({"type": "lifespan.startup.failed", "message": str(exc)})
            return
        crossing.begin()
        watching = watchers.start()
        warming = asyncio.create_task(_warm())
        discovery = asyncio.create_task(tool_servers.discover())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        establishing.cancel()
        await watchers.stop(watching)
        await warming
        discovery.cancel()
        await asyncio.gather(discovery, return_exceptions=True)
        watcher.stop()
        skills_watcher.stop()
        await self._handler.drain()
        crossing.end()
        await tool_servers.close()
        await lane.drain()
        await asyncio.to_thread(wake.flush)
        await schema_children.close()
        await client.close()
        await send({"type": "lifespan.shutdown.complete"})


async def _begin_namespace() -> "asyncio.Task[None]":
    """Establish the namespace of users' ids, in the background if need be.

    Raises `NamespaceMismatch` and `SecretsInvalid`: the server must not start then.
    """
    with contextlib.suppress(DatabaseDown):
        await lane.run_to_end(user_namespace.establish)
    return asyncio.create_task(_establish_namespace())


async def _establish_namespace() -> None:
    """Wait for the database; until it answers, requests of named users get 503."""
    while True:
        try:
            await lane.run_to_end(user_namespace.establish)
        except DatabaseDown:
            await asyncio.sleep(RETRY_SECONDS)
        except CoulisseError as exc:
            logger.error("no user is served: %s", exc)
            return
        else:
            return


async def _warm() -> None:
    """Load ahead what the first turns need, which else load it themselves."""
    ended = await asyncio.gather(
        asyncio.to_thread(remembering.warm),
        asyncio.to_thread(price_table.warm),
        return_exceptions=True,
    )
    for error in ended:
        # Raised, it would keep the server from stopping in order.
        if error is not None:
            logger.error("something is not loaded ahead", exc_info=error)
