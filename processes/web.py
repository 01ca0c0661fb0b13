"""A web process: `python -m processes.web --fd N --lifeline N`.

Serves the ASGI application of the settings on a socket the supervisor listens on, so
connections made while this process restarts wait instead of being refused.
"""

import argparse
import gc
import logging.config
import os
import socket

import uvicorn
from django.conf import settings

from processes import lifeline
from processes.heartbeat import Pulse
from telemetry import logs

HARD_END_SECONDS = 9.5


class WebServer(uvicorn.Server):
    """uvicorn, plus what this process does once it has started."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What was loaded lives as long as the process; a full collection need not
        # walk it again while requests wait.
        gc.collect()
        gc.freeze()


def serve(listening: int, pulse: Pulse | None, drain_seconds: int | None) -> None:
    """Answer requests until SIGTERM, then let open ones finish."""

    async def beat() -> None:
        if pulse is not None:
            pulse.beat()

    module, _, attribute = settings.ASGI_APPLICATION.rpartition(".")
    is_debug = os.environ.get("COULISSE_LOG_LEVEL", "").upper() == "DEBUG"
    config = uvicorn.Config(
        f"{module}:{attribute}",
        loop="uvloop",
        http="httptools",
        ws="websockets-sansio",
        # Nobody says anything on the studio's: they listen.
        ws_max_size=4096,
        lifespan="on",
        access_log=is_debug,
        log_config=None,
        log_level=None if is_debug else logging.WARNING,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=drain_seconds,
        callback_notify=beat,
        timeout_notify=0,  # each time it looks, which is every second
    )
    WebServer(config).run(sockets=[socket.socket(fileno=listening)])


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
    logging.config.dictConfig(settings.LOGGING)
    logs.take_over()
    if settings.COULISSE_PIN_CORES:
        _stay_on_one_core(arguments.position)
    lifeline.hold(arguments.lifeline, grace_seconds=HARD_END_SECONDS)
    board = arguments.board
    pulse = None if board is None else Pulse(board, arguments.position)
    serve(arguments.fd, pulse, arguments.drain)


if __name__ == "__main__":
    main()
