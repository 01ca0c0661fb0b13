"""The websocket of the live page: `/admin/live/events`.

Its handshake is a GET and passes the same access checks. It also refuses pages of other
origins, which could read the messages. Access is checked again every minute, so a
session that ended closes the socket.
"""

import asyncio
import logging
from io import BytesIO

from channels.generic.websocket import (  # type: ignore[import-untyped]
    AsyncWebsocketConsumer,
)

from core.errors import CoulisseError
from gateway.asgi.handler import check_host
from studio.live import broadcaster
from studio.server.asgi_handler import StudioHandler

SOCKET_PATH = "/admin/live/events"
UPGRADE_REQUIRED = 426
"""The status of a plain GET by an authorized client: `Upgrade Required`."""
RECHECK_SECONDS = 60.0
CLOSE_FAILED = 1011
CLOSE_FORBIDDEN = 4403
"""The close code for a client whose access ended."""

logger = logging.getLogger(__name__)


class LiveSocket(AsyncWebsocketConsumer):  # type: ignore[misc]  # it has no types
    """Sends the live state to one watcher."""

    channel_layer_alias = None
    """None: the broadcaster receives the messages of other processes once for all."""

    def __init__(self, handler: StudioHandler) -> None:
        super().__init__()
        self._handler = handler
        self._sending: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accept an authorized client, and start sending."""
        live = broadcaster.current()
        if live is None or not await self._may_watch():
            await self.close()
            return
        await self.accept()
        self._sending = asyncio.create_task(self._send_messages(live))

    async def disconnect(self, code: int) -> None:
        """Stop sending."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send_messages(self, live: broadcaster.LiveBroadcaster) -> None:
        rechecking = asyncio.create_task(self._recheck_access())
        try:
            with live.add_watcher() as watcher:
                async for message in watcher.messages():
                    try:
                        await self.send(text_data=message)
                    except OSError:  # ASGI: the client disconnected.
                        return
        except Exception:
            logger.exception("live websocket failed")
            await self.close(code=CLOSE_FAILED)
        finally:
            rechecking.cancel()

    async def _recheck_access(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            if not await self._may_watch():
                await self.close(code=CLOSE_FORBIDDEN)
                return

    async def _may_watch(self) -> bool:
        """Return whether a GET of this address would pass the access checks."""
        scope = {**self.scope, "type": "http", "method": "GET"}
        try:
            check_host(dict(scope["headers"]))
        except CoulisseError:
            return False
        request, _ = self._handler.create_request(scope, BytesIO())
        if request is None:
            return False
        response = await self._handler.run_get_response(request)
        return response.status_code == UPGRADE_REQUIRED
