"""The ASGI application that uvicorn serves."""

import os
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
django.setup()

import coulisse_site.celery  # noqa: E402, F401  turns may send Celery messages
from coulisse_site.lifespan import Lifespan  # noqa: E402  apps must be ready first
from gateway.asgi.handler import GatewayHandler  # noqa: E402
from studio.live import websocket  # noqa: E402
from studio.server.asgi_handler import StudioHandler  # noqa: E402


class Application:
    """Dispatches each type of ASGI scope to its handler."""

    def __init__(self) -> None:
        self._http = GatewayHandler()
        self._studio = StudioHandler()
        self._live = websocket.LiveSocket.as_asgi(handler=self._studio)
        self._lifespan = Lifespan(self._http)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._handle_websocket(scope, receive, send)
        elif f"{scope['path']}/".startswith("/admin/"):
            await self._studio(scope, receive, send)
        else:
            await self._http(scope, receive, send)

    async def _handle_websocket(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == websocket.SOCKET_PATH:
            await self._live(scope, receive, send)
        else:
            await send({"type": "websocket.close"})  # as a 403


application = Application()
