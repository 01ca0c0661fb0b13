"""`/metrics`: the metrics of this machine's processes, for Prometheus."""

import asyncio
import platform
import time
from collections.abc import Sequence
from contextlib import suppress
from hmac import compare_digest
from ipaddress import ip_network
from typing import cast

from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse

from access.authentication import local_requests
from config import live
from core.errors import CoulisseError, Denied, Unauthenticated, Unavailable
from core.network import client_addresses
from database import database_executor
from database.running_processes import STATE, Fleet
from gateway import errors
from gateway.api import api
from gateway.auth import authentication
from tasks.queue import queue_metrics
from telemetry.config import TELEMETRY
from telemetry.metrics import recording
from telemetry.metrics.config import MetricsConfig
from telemetry.metrics.figures import Figure

REUSE_SECONDS = 5.0
"""How long the figures of the database are reused, so that scrapes cannot load it."""


class ReaderRefused(Denied):
    """This client may not read the metrics."""

    code = "metrics_not_allowed"
    detail = "set telemetry.metrics.token, or add it to telemetry.metrics.networks"


class TokenRefused(Unauthenticated):
    """Send the token of /metrics as a bearer token: this is another one, or none."""

    code = "metrics_token_refused"
    detail = "it is telemetry.metrics.token"


class MetricsUnwritable(Unavailable):
    """The metrics are not available now."""

    detail = "an earlier line of the log says why they cannot be written"


async def serve_metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics to clients that `telemetry.metrics` allows."""
    try:
        settings = live.current().get(TELEMETRY).metrics
        if not settings.enabled:
            raise Http404
        check_access(request, settings)
        recording.update("web")
        if recording.active is None:
            raise MetricsUnwritable
    except CoulisseError as exc:
        return errors.on_domain_error(request, exc)
    figures = [*_server_figures(), *await DATABASE_FIGURES.read()]
    accept = request.headers.get("Accept", "")
    # In a thread, because the files of many processes take milliseconds to read.
    try:
        body, content_type = await asyncio.to_thread(recording.render, accept, figures)
    except OSError:
        # Files of a process that has just ended.
        body, content_type = await asyncio.to_thread(recording.render, accept, figures)
    return HttpResponse(body, content_type=content_type)


def check_access(request: HttpRequest, settings: MetricsConfig) -> None:
    """Raise `Unauthenticated` or `Denied` for a client that may not read them."""
    if settings.networks is not None:
        is_allowed = _is_in_networks(cast(ASGIRequest, request), settings.networks)
    else:
        is_allowed = settings.token is not None or local_requests.is_local(
            cast(ASGIRequest, request)
        )
    if not is_allowed:
        raise ReaderRefused
    if settings.token is None:
        return
    if "Authorization" not in request.headers:
        raise TokenRefused
    sent = authentication.bearer_token(request).encode()
    if not compare_digest(sent, settings.token.get_secret_value().encode()):
        raise TokenRefused


def _is_in_networks(request: ASGIRequest, networks: Sequence[str]) -> bool:
    """Return whether a client sends it from one of the networks, and no proxy does.

    A proxy within the networks would open the metrics to all of its clients.
    """
    client = request.scope.get("client")
    address = client and client_addresses.parse(client[0])
    if not address or local_requests.is_forwarded(request):
        return False
    return any(address in ip_network(each, strict=False) for each in networks)


def _server_figures() -> list[Figure]:
    build = [((api.version, platform.python_version()), 1.0)]
    digest = [((live.current().digest,), 1.0)]
    fleet = STATE.fleet or Fleet()
    counts = {"web": fleet.webs, "worker": fleet.workers, "beat": fleet.beats}
    roles = [((role,), float(count)) for role, count in counts.items()]
    return [
        Figure("fleet_processes", "Processes of all machines.", ("role",), roles),
        Figure("build_info", "Versions.", ("version", "python"), build),
        Figure("config_info", "The content of the YAML in force.", ("digest",), digest),
    ]


class DatabaseFigures:
    """The figures of the database, and whether it answers."""

    def __init__(self) -> None:
        self._read_at = -REUSE_SECONDS
        self._figures: list[Figure] = []
        self._lock = asyncio.Lock()

    async def read(self) -> list[Figure]:
        """Return figures of the last `REUSE_SECONDS`."""
        async with self._lock:
            if time.monotonic() - self._read_at >= REUSE_SECONDS:
                self._figures = await self._read()
                self._read_at = time.monotonic()
        return self._figures

    async def _read(self) -> list[Figure]:
        figures: list[Figure] = []
        with suppress(CoulisseError):  # `database_up` shows it.
            figures = await database_executor.run(queue_metrics.read_figures)
        is_up = [((), float(bool(figures)))]
        return [Figure("database_up", "1 if it answers.", (), is_up), *figures]


DATABASE_FIGURES = DatabaseFigures()
