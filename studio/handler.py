"""Answers requests under `/admin/`: Django as it usually is, with its middleware.

All of a request is answered in one of a few threads, which keep their connections to
the database as those of the database lane do.
"""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from gateway.handler import Handler

_threads = ThreadPoolExecutor(4, "studio")


class StudioHandler(Handler):
    """Answers HTTP requests to the studio."""

    chats = "/admin/playground/"

    def load_middleware(self, is_async: bool = False) -> None:
        """Load what `MIDDLEWARE` names, to be called in a thread."""
        ASGIHandler.load_middleware(self, is_async=False)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Return Django's response as it is."""
        request.urlconf = settings.COULISSE_STUDIO_URLCONF
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            _threads, context.run, self.get_response, request
        )
