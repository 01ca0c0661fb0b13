"""What a web process does when it starts and before it stops."""

from typing import Any

from config import live
from gateway.handler import Handler
from providers import client
from turns import lane, schema_children


class Lifespan:
    """ASGI's lifespan protocol."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        try:
            live.start()
            watcher = live.Watcher()
            watcher.start()
        except Exception as exc:
            await send({"type": "lifespan.startup.failed", "message": str(exc)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        watcher.stop()
        await self._handler.drain()
        await lane.drain()
        await schema_children.close()
        await client.close()
        await send({"type": "lifespan.shutdown.complete"})
