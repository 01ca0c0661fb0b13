"""A web process: `python -m processes.web --fd N --parent-pipe N`.

Serves the ASGI application of the settings on the supervisor's listening socket, so
connections wait instead of being refused while this process restarts.
"""

import argparse
import gc
import logging
import resource
import socket
from dataclasses import replace

import django
import uvicorn
from django.conf import settings
from django.utils.module_loading import import_string

from config import live
from config.config import SERVER, ServerConfig
from config.errors import ConfigInvalid
from processes.http_server.connections import ConnectionLimits
from processes.http_server.protocol import protocol_options
from processes.supervision import parent_watch
from processes.supervision.heartbeat import HeartbeatSender
from telemetry.log_output import logs

FORCE_EXIT_SECONDS = 9.5
OTHER_DESCRIPTORS = 256
"""Files and sockets of a web process, without those of its clients and their turns."""

logger = logging.getLogger(__name__)


class WebServer(uvicorn.Server):
    """uvicorn's server; freezes the garbage collector after its start."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Everything loaded so far lives as long as the process, so a full collection
        # can skip it while requests wait.
        gc.collect()
        gc.freeze()


def serve(
    listening: int, heartbeat: HeartbeatSender | None, drain_seconds: int | None
) -> None:
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
        timeout_graceful_shutdown=drain_seconds,
        callback_notify=beat,
        timeout_notify=0,  # Every second, as often as uvicorn checks.
    )
    WebServer(config).run(sockets=[socket.socket(fileno=listening)])


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
    parser.add_argument("--drain", type=int)
    parser.add_argument("--parent-pipe", type=int, required=True)
    arguments = parser.parse_args()
    # Loading the application does this too, but may fail earlier.
    django.setup()
    logs.capture_python_output()
    parent_watch.watch_pipe(arguments.parent_pipe, grace_seconds=FORCE_EXIT_SECONDS)
    file = arguments.heartbeats
    heartbeat = None if file is None else HeartbeatSender(file, arguments.position)
    serve(arguments.fd, heartbeat, arguments.drain)


if __name__ == "__main__":
    main()
