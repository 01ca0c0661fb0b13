"""`coulisse runserver`: Django's development server, with Daphne.

Daphne is not in `INSTALLED_APPS`: its app would load Twisted into every process.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from daphne.management.commands import runserver
from django.core.management.base import CommandError

from config.management.base import ConfigCommand
from processes.supervision import state_directory

Application = Callable[[Any, Any, Any], Awaitable[None]]


class LifespanApplication:
    """Runs an application's startup before its first request.

    Daphne does not support ASGI's lifespan protocol.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._startup: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._startup is None:
            self._startup = asyncio.create_task(self._start())
        await asyncio.shield(self._startup)
        await self._application(scope, receive, send)

    async def _start(self) -> None:
        replies: asyncio.Queue[Any] = asyncio.Queue()
        messages: asyncio.Queue[Any] = asyncio.Queue()
        messages.put_nowait({"type": "lifespan.startup"})
        # It waits for the shutdown, which never comes: a reload ends the process.
        self._lifespan = asyncio.ensure_future(
            self._application({"type": "lifespan"}, messages.get, replies.put)
        )
        reply = await replies.get()
        if reply["type"] == "lifespan.startup.failed":
            raise CommandError(reply["message"])


class Command(ConfigCommand, runserver.Command):  # type: ignore[misc]
    """Serves the ASGI application, and restarts when code changes."""

    help = (
        "Start a development server that reloads changed code. It starts no worker and "
        "no broker; `start` does."
    )

    def check_migrations(self) -> None:
        # Before the first query, which would fail without the directory.
        state_directory.current_state().prepare()
        super().check_migrations()

    def get_application(self, options: dict[str, Any]) -> LifespanApplication:
        return LifespanApplication(super().get_application(options))
