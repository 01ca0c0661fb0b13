"""Formatters of log records: a line of text, or of JSON.

Both include the request id and mask secrets. External input cannot begin a line: with
`extra={"has_lines": True}` a message keeps its line breaks, because they are the
server's own. `extra={"fields": …}` applies only to JSON.
"""

import logging
import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from core.runtime import request_ids
from core.text import redaction
from core.text.sanitization import escape_invisible

PROCESS_VARIABLE = "COULISSE_PROCESS"
"""The variable with the name of a child process."""
PROGRAMS = ("coulisse", "manage.py")
"""The names of the command."""
INDENT = "    "


class TextFormatter(logging.Formatter):
    """`2026-03-01 09:30:02,114 INFO telemetry.log_output.logs [req_…] turn …`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows, indented."""
        at = datetime.fromtimestamp(record.created, UTC)
        request_id = request_ids.current.get()
        prefix = f"[{request_id}] " if request_id else ""
        line = (
            f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d} {record.levelname} "
            f"{record.name} {prefix}{_format_message(record, INDENT)}"
        )
        traceback = _traceback_text(self, record)
        if not traceback:
            return line
        return f"{line}\n{INDENT}{_indent_lines(traceback, INDENT)}"


class JsonFormatter(logging.Formatter):
    """One object on a line."""

    def __init__(self) -> None:
        super().__init__()
        self._process = process_name()
        self._pid = os.getpid()
        self._host = socket.gethostname()

    def format(self, record: logging.LogRecord) -> str:
        """Return the object, without unknown values."""
        at = datetime.fromtimestamp(record.created, UTC)
        entry: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": _format_message(record, ""),
        }
        if request_id := request_ids.current.get():
            entry["request_id"] = request_id
        entry |= {"process": self._process, "pid": self._pid, "host": self._host}
        for name, value in getattr(record, "fields", {}).items():
            entry.setdefault(
                name, _sanitize(value) if isinstance(value, str) else value
            )
        if traceback := _traceback_text(self, record):
            entry["exception"] = _indent_lines(traceback, "")
        return orjson.dumps(entry, default=_as_text).decode()


def process_name() -> str:
    """Return the process's name: `web-1`, `worker`, or a command's name."""
    if name := os.environ.get(PROCESS_VARIABLE):
        return name
    program, *arguments = sys.argv or [""]
    if Path(program).name in PROGRAMS and arguments:
        return "supervisor" if arguments[0] == "start" else arguments[0]
    return Path(program).stem or "python"


def _format_message(record: logging.LogRecord, indent: str) -> str:
    try:
        message = record.getMessage()
    except Exception:
        # `logging` would write it to stderr unformatted, with secrets.
        message = f"{record.msg} {record.args!r}"
    if getattr(record, "has_lines", False):
        return _indent_lines(message, indent)
    return _sanitize(message)


def _traceback_text(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    text = formatter.formatException(record.exc_info) if record.exc_info else ""
    if record.stack_info:
        text += formatter.formatStack(record.stack_info)
    return text


def _sanitize(text: str) -> str:
    return escape_invisible(redaction.redact_all(text))


def _indent_lines(text: str, indent: str) -> str:
    return f"\n{indent}".join(
        map(escape_invisible, redaction.redact_all(text).splitlines())
    )


def _as_text(value: object) -> str:
    return _sanitize(str(value))
