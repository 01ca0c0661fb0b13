"""Whether this process writes its log, as the YAML says now."""

from functools import lru_cache

from config import kept, live, loader
from telemetry.config import TELEMETRY, TelemetryConfig


def is_wanted() -> bool:
    """Return `telemetry.fmt.enabled` as it is in force.

    The supervisor, beat and most commands put no configuration in force themselves:
    they go by the last one that was valid for the server.
    """
    config = live.in_force()
    telemetry = _kept() if config is None else config.get(TELEMETRY)
    return telemetry.fmt.enabled


def _kept() -> TelemetryConfig:
    content = kept.read()
    return TelemetryConfig() if content is None else _read(content)


@lru_cache(maxsize=1)
def _read(content: bytes) -> TelemetryConfig:
    return loader.section(content, TELEMETRY)
