"""A web process: `python -m processes.web --fd N --lifeline N`.

Serves the ASGI application of the settings on a socket the supervisor listens on, so
connections made while this process restarts wait instead of being refused.
"""

import argparse
import gc
import logging
import os
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
"""Files and sockets of a web process beside those of its clients and their turns."""

logger = logging.getLogger(__name__)


class WebServer(uvicorn.Server):
    """uvicorn, plus what this process does once it has started."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What was loaded lives as long as the process; a full collection need not
        # walk it again while requests wait.
        gc.collect()
        gc.freeze()


def serve(
    listening: int, pulse: HeartbeatSender | None, drain_seconds: int | None
) -> None:
    """Answer requests until SIGTERM, then let open ones finish."""

    async def beat() -> None:
        if pulse is not None:
            pulse.beat()

    application = import_string(settings.ASGI_APPLICATION)
    is_debug = os.environ.get("COULISSE_LOG_LEVEL", "").upper() == "DEBUG"
    config = uvicorn.Config(
        application,
        loop="uvloop",
        **protocol_options(_connection_limits()),
        # Nobody says anything on the studio's: they listen.
        ws_max_size=4096,
        lifespan="on",
        access_log=is_debug,
        log_config=None,
        log_level=None if is_debug else logging.WARNING,
        server_header=False,
        timeout_graceful_shutdown=drain_seconds,
        callback_notify=beat,
        timeout_notify=0,  # each time it looks, which is every second
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
        *(limits.max_connections, affordable),
    )
    return replace(limits, max_connections=affordable)


def _raise_descriptor_limit(connections: int) -> int:
    """Allow this process the files it needs; return how many connections it can have.

    A connection and its turn's call to a provider take one each. The usual soft limit
    of 1024 is for programs that call select(2).
    """
    wanted = 2 * connections + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    return max(1, (soft - OTHER_DESCRIPTORS) // 2)


def _stay_on_one_core(position: int) -> None:
    """Keep this process's threads on one core, each web process on another.

    The event loop and the database lane take turns with the interpreter anyway; on
    two cores they fight over its lock, which costs a busy process as much CPU as the
    turns themselves (docs/performance.md).
    """
    if not hasattr(os, "sched_setaffinity"):
        return  # macOS has no such call.
    cores = sorted(os.sched_getaffinity(0))
    # Two servers on one machine start at different cores.
    core = cores[(os.getppid() + position) % len(cores)]
    os.sched_setaffinity(0, {core})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--board", type=int)
    parser.add_argument("--position", type=int, default=1)
    parser.add_argument("--drain", type=int)
    parser.add_argument("--lifeline", type=int, required=True)
    arguments = parser.parse_args()
    # Loading the application does it too, but may fail first.
    django.setup()
    logs.capture_python_output()
    if settings.COULISSE_PIN_CORES:
        _stay_on_one_core(arguments.position)
    parent_watch.watch_pipe(arguments.lifeline, grace_seconds=FORCE_EXIT_SECONDS)
    board = arguments.board
    pulse = None if board is None else HeartbeatSender(board, arguments.position)
    serve(arguments.fd, pulse, arguments.drain)


if __name__ == "__main__":
    main()
