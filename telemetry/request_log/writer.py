"""Writes the request log from a thread of its own, in batches.

The event loop only appends to a list: a slow disk delays no request, and a full one
loses lines of the log, nothing else.
"""

import logging
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings

from config.sections import Config
from core.text import redaction
from telemetry.config import TELEMETRY, RequestLogConfig
from telemetry.request_log import log_file

BATCH_SECONDS = 0.2
MAX_WAITING = 10_000
"""Lines that wait for the disk; further ones are dropped and counted."""
WARNING_SECONDS = 60.0
"""The interval of warnings about a log that cannot be written."""
STDERR = "stderr"
"""The path that means stderr."""
STATE_FOLDER = ".coulisse"
"""Stands for the state directory in paths of the YAML."""
REFUSAL_KEY = "coulisse.refusal"
"""Where the scope of a request has the fields of its refusal by the HTTP server."""

logger = logging.getLogger(__name__)


_active: RequestLogConfig | None = None


def apply_config(config: Config) -> None:
    """Apply the settings of a configuration that comes into force."""
    global _active
    request_log = config.get(TELEMETRY).request_log
    _active = request_log if request_log.enabled else None


def active_config() -> RequestLogConfig | None:
    """Return the settings in force; None while the log is off."""
    return _active


def log_path(config: RequestLogConfig) -> Path:
    """Return the path of the file.

    One in `.coulisse/` is in the state directory, wherever that is; another relative
    path is beside the YAML.
    """
    path = Path(config.path)
    if path.parts[:1] == (STATE_FOLDER,):
        return Path(settings.COULISSE_STATE_DIR, *path.parts[1:])
    return Path(settings.COULISSE_CONFIG).parent / path


class RequestLogWriter:
    """Collects the lines of this process and writes them shortly afterwards."""

    def __init__(self) -> None:
        # At its exit, Python waits for the threads of executors, and so for the lines.
        self._executor = ThreadPoolExecutor(1, "request-log")
        self._lock = threading.Lock()
        self._waiting: list[dict[str, Any]] = []
        self._dropped = 0
        self._warned_at = -WARNING_SECONDS
        self._process = {"host": socket.gethostname(), "pid": os.getpid()}

    def add(self, line: dict[str, Any], config: RequestLogConfig) -> None:
        """Write a line soon; `config` also applies to those that wait with it."""
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                self._dropped += 1
                return
            self._waiting.append(line)
            is_first = len(self._waiting) == 1
        if is_first:
            self._executor.submit(self._write_soon, config)

    def _write_soon(self, config: RequestLogConfig) -> None:
        time.sleep(BATCH_SECONDS)
        with self._lock:
            lines, self._waiting = self._waiting, []
            dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append({"dropped": dropped})
        try:
            self._write(lines, config)
        except Exception as exc:
            self._warn(len(lines), config, exc)

    def _write(self, lines: list[dict[str, Any]], config: RequestLogConfig) -> None:
        text = "".join(f"{self._encode(line)}\n" for line in lines)
        if config.path == STDERR:
            sys.stderr.write(text)
            sys.stderr.flush()
            return
        log_file.append(
            log_path(config),
            text.encode(),
            max_bytes=config.max_bytes,
            keep_files=config.keep_files,
        )

    def _encode(self, line: dict[str, Any]) -> str:
        # A client may send a secret as its request id.
        return redaction.redact_all(orjson.dumps({**line, **self._process}).decode())

    def _warn(self, count: int, config: RequestLogConfig, error: Exception) -> None:
        now = time.monotonic()
        if now - self._warned_at >= WARNING_SECONDS:
            self._warned_at = now
            logger.warning(
                "cannot write %d lines of the request log to %s: %s; check "
                "telemetry.request_log.path, its rights and the disk's free space",
                count,
                config.path,
                error,
            )


WRITER = RequestLogWriter()
