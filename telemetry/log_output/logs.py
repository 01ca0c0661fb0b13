"""The log on stderr: its switch, `telemetry.fmt.enabled`, Python's own output, and the
log line of a turn.

Light to import: processes that read no YAML use it too, and load the rest only when
they log.
"""

import logging
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType

from django.utils.module_loading import import_string

from core import money
from core.trace import Call, TracedToolCall
from telemetry.types import TurnRecord

logger = logging.getLogger(__name__)


class LogSwitch(logging.Filter):
    """Filters records by the switch in the YAML."""

    def __init__(self, is_enabled: str) -> None:
        """Takes the path of a function that decides by level; it is imported on first
        use.
        """
        super().__init__()
        self._path = is_enabled
        self._is_enabled: Callable[[int], bool] | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        # On any error the record is written, so that no line is lost.
        with suppress(Exception):
            if self._is_enabled is None:
                self._is_enabled = import_string(self._path)
            return self._is_enabled(record.levelno)
        return True


def capture_python_output() -> None:
    """Log what Python writes to stderr by itself: warnings and uncaught exceptions.

    Unformatted, it would be text among JSON, and could contain secrets.
    """
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_thread_exception
    sys.unraisablehook = _log_unraisable


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logger.critical(
        "uncaught exception, the process exits", exc_info=(kind, error, trace)
    )


def _log_thread_exception(ended: threading.ExceptHookArgs) -> None:
    if issubclass(ended.exc_type, SystemExit):
        return
    name = "?" if ended.thread is None else ended.thread.name
    error = ended.exc_value or ended.exc_type()
    logger.error("uncaught exception in thread %s", name, exc_info=error)


def _log_unraisable(raised: "sys.UnraisableHookArgs") -> None:
    message = raised.err_msg or "exception ignored in"
    logger.error("%s %r", message, raised.object, exc_info=raised.exc_value)


def log_turn(record: TurnRecord) -> None:
    """Log in one line that a turn ended, without its content."""
    if not logger.isEnabledFor(logging.INFO):
        return
    count = _count_tool_calls(record.calls)
    cost, token_id = record.cost_micro_usd, record.token_id
    logger.info(
        "turn %s of %s: %s in %.2f s, %d tokens in, %d out, %d tool call%s%s%s",
        record.turn_id,
        record.agent,
        record.outcome,
        record.seconds,
        record.usage.input_tokens,
        record.usage.output_tokens,
        count,
        "" if count == 1 else "s",
        "" if cost is None else f", ${money.decimal_usd(cost)}",
        "" if token_id is None else f", token {token_id.hex[:8]}",
        extra={"fields": _turn_fields(record, count)},
    )


def _turn_fields(record: TurnRecord, tool_calls: int) -> dict[str, object]:
    fields = {
        "turn_id": str(record.turn_id),
        "agent": record.agent,
        "experiment": record.experiment or None,
        "variant": record.agent if record.experiment else None,
        "origin": None if record.origin == "chat" else record.origin,
        "outcome": record.outcome,
        "seconds": round(record.seconds, 4),
        "input_tokens": record.usage.input_tokens,
        "output_tokens": record.usage.output_tokens,
        "tool_calls": tool_calls,
        "cost_micro_usd": record.cost_micro_usd,
        "token_id": None if record.token_id is None else str(record.token_id),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _count_tool_calls(calls: Sequence[Call]) -> int:
    tool_calls = [call for call in calls if isinstance(call, TracedToolCall)]
    return len(tool_calls) + sum(_count_tool_calls(call.calls) for call in tool_calls)
