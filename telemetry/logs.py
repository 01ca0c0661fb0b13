"""The switch of the log on stderr, which `telemetry.fmt.enabled` turns.

Light to import: processes that read no YAML have it too, and need the rest only once
they log.
"""

import logging
from collections.abc import Callable
from contextlib import suppress

from django.utils.module_loading import import_string


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
