"""What this process logs, by the current YAML."""

import logging
from functools import lru_cache

from config import live
from config.loading import last_valid_copy, loader
from config.sections import Config
from telemetry.config import TELEMETRY, TelemetryConfig
from telemetry.log_output import log_levels


def is_enabled(level: int) -> bool:
    """Return whether a line of this level is written, by the YAML in force.

    Critical errors always are. The supervisor, beat and most commands do not load the
    configuration themselves: they use the last one that the server accepted.
    """
    config = live.current_or_none()
    if config is None:
        # The process may be starting, and an error ends it.
        return level >= logging.ERROR or _last_valid_config().fmt.enabled
    return level >= logging.CRITICAL or config.get(TELEMETRY).fmt.enabled


def apply_levels(config: Config) -> None:
    """Apply the levels of a configuration that comes into force."""
    log_levels.apply(config.get(TELEMETRY).levels)


def _last_valid_config() -> TelemetryConfig:
    content = last_valid_copy.read_copy()
    return TelemetryConfig() if content is None else _parse_config(content)


@lru_cache(maxsize=1)
def _parse_config(content: bytes) -> TelemetryConfig:
    config = loader.parse_sections(content, (TELEMETRY,))
    apply_levels(config)
    return config.get(TELEMETRY)
