"""Formatters of log records: a line of text, or of JSON.

Both include the request id and mask secrets, and external input cannot begin a line.
`extra={"fields": …}` is for JSON alone; with `extra={"has_lines": True}` the line
breaks in a message are the server's own, and stay.
"""

import logging
import os
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
INDENT = "    "


class TextFormatter(logging.Formatter):
    """`2026-03-01 09:30:02,114 INFO telemetry.log_output.logs [req_…] turn …`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows, indented."""
        at = datetime.fromtimestamp(record.created, UTC)
        asked = request_ids.current.get()
        about = f"[{asked}] " if asked else ""
        line = (
            f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d} {record.levelname} "
            f"{record.name} {about}{_format_message(record, INDENT)}"
        )
        trouble = _traceback_text(self, record)
        return f"{line}\n{INDENT}{_indent_lines(trouble, INDENT)}" if trouble else line


class JsonFormatter(logging.Formatter):
    """One object on a line."""

    def __init__(self) -> None:
        super().__init__()
        self._process = process_name()
        self._pid = os.getpid()

    def format(self, record: logging.LogRecord) -> str:
        """Return the object, without unknown values."""
        at = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": _format_message(record, ""),
        }
        if asked := request_ids.current.get():
            told["request_id"] = asked
        told |= {"process": self._process, "pid": self._pid}
        for name, value in getattr(record, "fields", {}).items():
            told.setdefault(name, _sanitize(value) if isinstance(value, str) else value)
        if trouble := _traceback_text(self, record):
            told["exception"] = _indent_lines(trouble, "")
        return orjson.dumps(told, default=_as_text).decode()


def process_name() -> str:
    """Return the process's name: `web-1`, `worker`, or a command's name."""
    if given := os.environ.get(PROCESS_VARIABLE):
        return given
    program, *words = sys.argv or [""]
    if Path(program).name == "manage.py" and words:
        return "supervisor" if words[0] == "start" else words[0]
    return Path(program).stem or "python"


def _format_message(record: logging.LogRecord, indent: str) -> str:
    try:
        said = record.getMessage()
    except Exception:
        # logging would write it to stderr unformatted, with secrets.
        said = f"{record.msg} {record.args!r}"
    if getattr(record, "has_lines", False):
        return _indent_lines(said, indent)
    return _sanitize(said)


def _traceback_text(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    told = formatter.formatException(record.exc_info) if record.exc_info else ""
    if record.stack_info:
        told += formatter.formatStack(record.stack_info)
    return told


def _sanitize(said: str) -> str:
    return escape_invisible(redaction.redact_all(said))


def _indent_lines(said: str, indent: str) -> str:
    return f"\n{indent}".join(
        map(escape_invisible, redaction.redact_all(said).splitlines())
    )


def _as_text(value: object) -> str:
    return _sanitize(str(value))
