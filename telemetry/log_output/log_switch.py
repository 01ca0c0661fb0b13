"""Whether this process writes its log, as the YAML says now."""

import logging
from functools import lru_cache

from config import live
from config.loading import last_valid_copy, loader
from telemetry.config import TELEMETRY, TelemetryConfig


def is_enabled(level: int) -> bool:
    """Return whether a line of this level is written, as the YAML in force says.

    What may end a process always is. The supervisor, beat and most commands put no
    configuration in force themselves: they go by the last that the server took.
    """
    config = live.current_or_none()
    if config is None:
        # It may be at its start, which an error ends.
        return level >= logging.ERROR or _last_valid_config().fmt.enabled
    return level >= logging.CRITICAL or config.get(TELEMETRY).fmt.enabled


def _last_valid_config() -> TelemetryConfig:
    content = last_valid_copy.read_copy()
    return TelemetryConfig() if content is None else _parse_config(content)


@lru_cache(maxsize=1)
def _parse_config(content: bytes) -> TelemetryConfig:
    return loader.parse_section(content, TELEMETRY)
