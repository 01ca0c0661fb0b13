"""A web process: `python -m processes.web --fd N --lifeline N`.

Serves the ASGI application of the settings on a socket the supervisor listens on, so
connections made while this process restarts wait instead of being refused.
"""

import argparse
import gc
import logging
import os
import socket
import sys

import uvicorn
from django.conf import settings

from processes import lifeline

DRAIN_SECONDS = 8
"""How long open streams may take to finish after SIGTERM."""
HARD_END_SECONDS = 9.5
SWITCH_SECONDS = 0.0005
"""How long a thread keeps the interpreter when another wants it. The database lane
waits that long for the event loop at each query; at Python's 5 ms a busy process
spends half as much again on a turn (docs/performance.md)."""


class WebServer(uvicorn.Server):
    """uvicorn, plus what this process does once it has started."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What was loaded lives as long as the process; a full collection need not
        # walk it again while requests wait.
        gc.collect()
        gc.freeze()


def serve(listening: int) -> None:
    """Answer requests until SIGTERM, then let open ones finish."""
    module, _, attribute = settings.ASGI_APPLICATION.rpartition(".")
    is_debug = os.environ.get("COULISSE_LOG_LEVEL", "").upper() == "DEBUG"
    config = uvicorn.Config(
        f"{module}:{attribute}",
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=is_debug,
        log_config=None,
        log_level=None if is_debug else logging.WARNING,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    WebServer(config).run(sockets=[socket.socket(fileno=listening)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--lifeline", type=int, required=True)
    arguments = parser.parse_args()
    sys.setswitchinterval(SWITCH_SECONDS)
    lifeline.hold(arguments.lifeline, grace_seconds=HARD_END_SECONDS)
    serve(arguments.fd)


if __name__ == "__main__":
    main()
