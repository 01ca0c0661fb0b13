"""Logs slow SQL statements, with placeholders in place of all values.

Django calls a wrapper for each statement of a connection. A connection has it only
while `telemetry.slow_query_ms` is set, so that statements cost nothing extra otherwise.
"""

import logging
import re
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from config.sections import Config
from telemetry.config import TELEMETRY

LOG_SECONDS = 60.0
"""A statement is logged at most once in this time, with its number."""
MAX_STATEMENTS = 200
"""Statements that are remembered; the one that was logged first is forgotten first."""
MAX_LENGTH = 2000
"""Characters of a statement in the log."""
LITERAL = re.compile(r"'[^']*+'")
PLACEHOLDERS = re.compile(r"%s(?:, ?%s)++")
ROWS = re.compile(r"(\(%s(?:, …)?\))(?:, ?\1)++")

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SlowStatement:
    """The slow calls of a statement since it was last logged."""

    logged_at: float
    count: int = 0
    slowest_seconds: float = 0.0


_threshold_seconds: float | None = None
_connections: "weakref.WeakSet[BaseDatabaseWrapper]" = weakref.WeakSet()
_statements: OrderedDict[str, SlowStatement] = OrderedDict()
_lock = threading.Lock()


def apply_config(config: Config) -> None:
    """Apply the threshold of a configuration that comes into force."""
    global _threshold_seconds
    threshold = config.get(TELEMETRY).slow_query_ms
    with _lock:
        _threshold_seconds = None if threshold is None else threshold / 1000
        for connection in _connections:
            _wrap(connection)


def _on_connection(connection: BaseDatabaseWrapper, **_: Any) -> None:
    with _lock:
        _connections.add(connection)
        _wrap(connection)


connection_created.connect(_on_connection)


def _wrap(connection: BaseDatabaseWrapper) -> None:
    """Add the wrapper to a connection, or remove it.

    The list is replaced, because the connection's thread may be using it.
    """
    others = [each for each in connection.execute_wrappers if each is not _measure]
    is_on = _threshold_seconds is not None
    connection.execute_wrappers = [*others, _measure] if is_on else others


def _measure(
    execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
) -> Any:
    started = time.perf_counter()
    try:
        return execute(sql, params, many, context)
    finally:
        seconds = time.perf_counter() - started
        if _threshold_seconds is not None and seconds >= _threshold_seconds:
            _log(normalize(str(sql)), seconds, context["cursor"].rowcount)


def normalize(sql: str) -> str:
    """Return a statement that is the same for any number of values, on one line."""
    sql = PLACEHOLDERS.sub("%s, …", LITERAL.sub("'…'", " ".join(sql.split())))
    sql = ROWS.sub(r"\1, …", sql)
    return sql if len(sql) <= MAX_LENGTH else f"{sql[:MAX_LENGTH]}…"


def _log(sql: str, seconds: float, rows: int) -> None:
    statement = _count(sql, seconds)
    if statement is None:
        return
    milliseconds, slowest = seconds * 1000, statement.slowest_seconds * 1000
    logger.warning(
        "slow query: %.0f ms%s%s: %s",
        milliseconds,
        f", {rows} row{'' if rows == 1 else 's'}" if rows >= 0 else "",
        f", {statement.count} of them since the last line, slowest {slowest:.0f} ms"
        if statement.count > 1
        else "",
        sql,
        extra={
            "fields": {
                "milliseconds": round(milliseconds, 3),
                "count": statement.count,
                "slowest_milliseconds": round(slowest, 3),
                "sql": sql,
                **({"rows": rows} if rows >= 0 else {}),
            }
        },
    )


def _count(sql: str, seconds: float) -> SlowStatement | None:
    """Count a statement; return what to log of it, or None within `LOG_SECONDS`."""
    now = time.monotonic()
    with _lock:
        known = _statements.get(sql)
        if known is None:
            known = SlowStatement(now - LOG_SECONDS)
            _statements[sql] = known
            if len(_statements) > MAX_STATEMENTS:
                _statements.popitem(last=False)
        known.count += 1
        known.slowest_seconds = max(known.slowest_seconds, seconds)
        if now - known.logged_at < LOG_SECONDS:
            return None
        _statements[sql] = SlowStatement(now)
        _statements.move_to_end(sql)
        return known
