"""The log on stderr: its switch, `telemetry.fmt.enabled`, and the line of a turn.

Light to import: processes that read no YAML have it too, and need the rest only once
they log.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from django.utils.module_loading import import_string

from core.trace import Call, ToolCall
from telemetry.known import Record

logger = logging.getLogger(__name__)


class Switch(logging.Filter):
    """Lets through the records that are wanted."""

    def __init__(self, is_wanted: str) -> None:
        """Take where the function of a level is that knows; it is loaded when asked."""
        super().__init__()
        self._path = is_wanted
        self._is_wanted: Callable[[int], bool] | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        # Whatever goes wrong here is worse untold than told too much.
        with suppress(Exception):
            if self._is_wanted is None:
                self._is_wanted = import_string(self._path)
            return self._is_wanted(record.levelno)
        return True


def turn_ended(record: Record) -> None:
    """Say in a line that a turn ended, and nothing of what was said in it."""
    if not logger.isEnabledFor(logging.INFO):
        return
    count = _tool_calls(record.calls)
    logger.info(
        "turn %s of %s: %s in %.2f s, %d + %d tokens, %d tool call%s",
        *(record.turn_id, record.agent, record.outcome, record.seconds),
        *(record.usage.input_tokens, record.usage.output_tokens),
        *(count, "" if count == 1 else "s"),
    )


def _tool_calls(calls: Sequence[Call]) -> int:
    made = [call for call in calls if isinstance(call, ToolCall)]
    return len(made) + sum(_tool_calls(call.calls) for call in made)
