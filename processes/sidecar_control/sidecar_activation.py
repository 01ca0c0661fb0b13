"""Whether a server runs sidecars; an edit of its YAML may add the first one."""

from collections.abc import Callable
from functools import lru_cache

from django.conf import settings

from config.errors import ConfigInvalid
from config.loading import last_valid_copy, loader
from config.sections import Config
from processes.config import SIDECARS

NAME = "sidecars"


def are_sidecars_enabled() -> bool:
    """Return whether `start` runs the sidecars of the YAML."""
    return NAME in settings.COULISSE_PROCESSES


def sidecars_needed(config: Config) -> Callable[[], bool] | None:
    """Return a function that checks for sidecars; None if they must not run."""
    if not are_sidecars_enabled():
        return None
    had_sidecars = bool(config.get(SIDECARS))
    return lambda: had_sidecars or _has_sidecars(last_valid_copy.read_copy())


@lru_cache(maxsize=1)
def _has_sidecars(content: bytes | None) -> bool:
    if content is None:
        return False
    try:
        return bool(loader.parse_sections(content, (SIDECARS,)).get(SIDECARS))
    except ConfigInvalid:
        return False
