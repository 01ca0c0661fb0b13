"""A web process: `python -m processes.web --fd N --parent-pipe N`.

Serves the ASGI application of the settings on the supervisor's listening socket, so
connections wait instead of being refused while this process restarts.
"""

import argparse
import asyncio
import gc
import logging
import resource
import socket
import sys
from dataclasses import dataclass, replace
from typing import Any

import django
import uvicorn
from django.conf import settings
from django.utils.module_loading import import_string

from config import live
from config.config import SERVER, ServerConfig
from config.errors import ConfigInvalid
from core.runtime import process_stop
from processes.http_server.connections import ConnectionLimits
from processes.http_server.protocol import protocol_options
from processes.supervision import parent_watch
from processes.supervision.heartbeat import HeartbeatSender
from telemetry.log_output import logs

FORCE_EXIT_SECONDS = 9.5
OTHER_DESCRIPTORS = 256
"""Files and sockets of a web process, without those of its clients and their turns."""

logger = logging.getLogger(__name__)


CLOSE_HEADER = (b"connection", b"close")


@dataclass(frozen=True, slots=True)
class Drain:
    """How a web process stops, in seconds."""

    lame_duck_seconds: float
    """Time in which it still accepts connections, but is not ready."""
    seconds: float
    """Time after that for open replies."""


class WebServer(uvicorn.Server):
    """uvicorn's server, with a garbage collector that is frozen after its start, and an
    end in which no request is lost."""

    def __init__(self, config: uvicorn.Config, drain: Drain) -> None:
        super().__init__(config)
        self._drain = drain

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Everything loaded so far lives as long as the process, so a full collection
        # can skip it while requests wait.
        gc.collect()
        gc.freeze()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Fail the readiness, serve on as a lame duck, then let open requests finish.

        Connections end with their next response, so that clients go elsewhere.
        """
        process_stop.begin()
        beating = asyncio.create_task(self._keep_beating())
        state = self.server_state
        state.default_headers = [*state.default_headers, CLOSE_HEADER]
        for connection in state.connections:
            cycle = getattr(connection, "cycle", None)
            if cycle is not None and not cycle.response_complete:
                cycle.keep_alive = False
        await asyncio.sleep(process_stop.limit(self._drain.lame_duck_seconds))
        seconds: Any = process_stop.limit(self._drain.seconds)  # A fraction works, too.
        self.config.timeout_graceful_shutdown = seconds
        await super().shutdown(sockets)
        beating.cancel()

    async def _keep_beating(self) -> None:
        """Send heartbeats, which uvicorn sends until the signal only."""
        while self.config.callback_notify is not None:
            await self.config.callback_notify()
            await asyncio.sleep(1)


def serve(listening: int, heartbeat: HeartbeatSender | None, drain: Drain) -> None:
    """Serve requests until SIGTERM, then let open ones finish."""

    async def beat() -> None:
        if heartbeat is not None:
            heartbeat.beat()

    application = import_string(settings.ASGI_APPLICATION)
    is_debug = settings.COULISSE_LOG_LEVEL == "DEBUG"
    config = uvicorn.Config(
        application,
        loop="uvloop",
        **protocol_options(_connection_limits()),
        # The studio's pages send nothing on their WebSockets.
        ws_max_size=4096,
        lifespan="on",
        access_log=is_debug,
        log_config=None,
        log_level=None if is_debug else logging.WARNING,
        server_header=False,
        callback_notify=beat,
        timeout_notify=0,  # Every second, as often as uvicorn checks.
    )
    listener = socket.socket(fileno=listening)
    if listener.getsockname()[1] == 0:
        sys.exit("another program has taken the port of this server")
    WebServer(config, drain).run(sockets=[listener])


def _connection_limits() -> ConnectionLimits:
    try:
        server = live.load_at_start().get(SERVER)
    except ConfigInvalid:
        server = ServerConfig()  # The application reports it when it starts.
    limits = ConnectionLimits.from_config(server)
    affordable = _raise_descriptor_limit(limits.max_connections)
    if affordable >= limits.max_connections:
        return limits
    logger.warning(
        "server.max_connections is %d, but the system's limit on open files allows "
        "%d: raise it (`ulimit -n`, LimitNOFILE)",
        limits.max_connections,
        affordable,
    )
    return replace(limits, max_connections=affordable)


def _raise_descriptor_limit(connections: int) -> int:
    """Raise the limit on open files; return how many connections it allows.

    A connection needs one file, and its turn's call to a provider another. The usual
    soft limit of 1024 is for programs that call select(2).
    """
    required = 2 * connections + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < required:
        soft = required if hard == resource.RLIM_INFINITY else min(required, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= required:
        return connections
    return max(1, (soft - OTHER_DESCRIPTORS) // 2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--heartbeats", type=int)
    parser.add_argument("--position", type=int, default=1)
    parser.add_argument("--drain", type=float, default=0)
    parser.add_argument("--lame-duck", type=float, default=0)
    parser.add_argument("--parent-pipe", type=int, required=True)
    arguments = parser.parse_args()
    # Loading the application does this too, but may fail earlier.
    django.setup()
    logs.capture_python_output()
    parent_watch.watch_pipe(arguments.parent_pipe, grace_seconds=FORCE_EXIT_SECONDS)
    file = arguments.heartbeats
    heartbeat = None if file is None else HeartbeatSender(file, arguments.position)
    drain = Drain(arguments.lame_duck, arguments.drain)
    serve(arguments.fd, heartbeat, drain)


if __name__ == "__main__":
    main()
