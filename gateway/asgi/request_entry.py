"""The entry of one HTTP request in the request log.

An entry counts what is received and sent. Domain code adds what it knows with
`core.runtime.request_facts`.
"""

import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest
from django.urls import resolve

from access.users.caller import ANONYMOUS, CALLER_ATTRIBUTE
from core.runtime import request_facts, request_ids
from core.text.sanitization import escape_and_truncate
from telemetry.config import RequestLogConfig
from telemetry.request_log import writer
from telemetry.request_log.writer import REFUSAL_KEY

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

MAX_PATH_LENGTH = 2000
"""Characters of a path whose route is searched; longer ones have none."""
MAX_METHOD_LENGTH = 20
ROUTE_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
USER_DIGEST_LENGTH = 16


def begin(scope: Scope) -> "RequestEntry | None":
    """Return the entry of a request; None while the request log is off."""
    config = writer.active_config()
    return None if config is None else RequestEntry(scope, config)


class RequestEntry:
    def __init__(self, scope: Scope, config: RequestLogConfig) -> None:
        self.request: HttpRequest | None = None
        """Set once it is parsed."""
        self._scope = scope
        self._config = config
        self._facts: dict[str, Any] = {}
        request_facts.current.set(self._facts)
        self._at = datetime.now(UTC)
        self._started = time.perf_counter()
        self._first_byte_ms: float | None = None
        self._status: int | None = None
        self._bytes_in = self._bytes_out = 0
        self._has_ended = self._has_left = False

    def watch(self, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """Return the functions that count what passes through them."""

        async def watched_receive() -> Mapping[str, Any]:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._has_left = not self._has_ended
            else:
                self._bytes_in += len(message.get("body", b""))
            return message

        async def watched_send(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._status = message["status"]
                self._first_byte_ms = self._passed_ms()
            else:
                self._bytes_out += len(message.get("body", b""))
            await send(message)
            if not message.get("more_body") and self._first_byte_ms is not None:
                self._has_ended = message["type"] == "http.response.body"

        return watched_receive, watched_send

    def finish(self) -> None:
        """Write the entry, with the fields that are known."""
        facts = self._facts
        if (user := facts.pop("user", None)) is not None:
            facts["user"] = user_digest(str(user))
        client = self._scope.get("client")
        line = {
            "time": self._at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "request_id": request_ids.current.get(),
            "client": None if client is None else client[0],
            "method": escape_and_truncate(self._scope["method"], MAX_METHOD_LENGTH),
            "route": self._route(),
            "status": self._status,
            "duration_ms": self._passed_ms(),
            "first_byte_ms": self._first_byte_ms,
            "bytes_in": self._bytes_in,
            "bytes_out": self._bytes_out,
            "token": self._token(),
            "cut": self._cut(),
            **facts,
            # The refusal of a request that the server did not receive whole.
            **self._scope.get(REFUSAL_KEY, {}),
        }
        writer.WRITER.add(
            {name: value for name, value in line.items() if value is not None},
            self._config,
        )

    def _passed_ms(self) -> float:
        return round((time.perf_counter() - self._started) * 1000, 3)

    def _route(self) -> str | None:
        """Return the route with the names of its parameters, which may be secrets."""
        request = self.request
        if request is None or len(request.path_info) > MAX_PATH_LENGTH:
            return None
        match = request.resolver_match
        if match is None:
            is_studio = f"{request.path_info}/".startswith("/admin/")
            urls = settings.COULISSE_STUDIO_URLCONF if is_studio else None
            with suppress(Http404):
                match = resolve(request.path_info, urls)
        if match is None:
            return None
        return "/" + ROUTE_PARAMETER.sub(r"{\1}", match.route)

    def _token(self) -> str | None:
        caller = getattr(self.request, CALLER_ATTRIBUTE, ANONYMOUS)
        return None if caller.token is None else caller.token.label

    def _cut(self) -> str | None:
        """Return who ended an incomplete response."""
        if self._has_ended or REFUSAL_KEY in self._scope:
            return None
        return "client" if self._has_left else "server"


def user_digest(user_id: str) -> str:
    """Return what identifies a user in the log: with an id itself, clients may act."""
    return hashlib.sha256(user_id.encode()).hexdigest()[:USER_DIGEST_LENGTH]
