"""Serves requests under `/admin/`: Django's handler, with its middleware.

One of a few threads handles each request as a whole. The threads keep their database
connections, as those of the database executor do.
"""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from access.authentication.config import AUTH
from access.authentication.local_requests import is_local
from config import live
from gateway.asgi import admission
from gateway.asgi.admission import BodyLimit
from gateway.asgi.handler import GatewayHandler
from studio.security import password_checks

_thread_pool = ThreadPoolExecutor(4, "studio")


class StudioHandler(GatewayHandler):
    def load_middleware(self, is_async: bool = False) -> None:
        """Load the classes of `MIDDLEWARE`, to be called in a thread."""
        ASGIHandler.load_middleware(self, is_async=False)

    async def admit(self, request: ASGIRequest) -> BodyLimit:
        """Return the body size limit: small unless the request has a credential.

        The middleware checks the credential later, in its threads.
        """
        admin = live.current().get(AUTH).admin
        if admin is None:
            is_shown = is_local(request)
        elif admin.oidc is None:
            is_shown = "Authorization" in request.headers
        else:
            is_shown = settings.SESSION_COOKIE_NAME in request.COOKIES
        if is_shown:
            return admission.server_limit()
        return BodyLimit(admission.SMALL_BODY_BYTES, "log in or send less")

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Return Django's response unchanged."""
        request.urlconf = settings.COULISSE_STUDIO_URLCONF
        await password_checks.check_password(request)
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            _thread_pool, context.run, self.get_response, request
        )
