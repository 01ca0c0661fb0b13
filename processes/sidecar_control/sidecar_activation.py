"""Whether a server runs sidecars, which an edit of its YAML may bring."""

from collections.abc import Callable
from functools import lru_cache

from django.conf import settings

from config.errors import ConfigInvalid
from config.loading import last_valid_copy, loader
from config.sections import Config
from processes.config import SIDECARS

NAME = "sidecars"


def are_run() -> bool:
    """Say whether `start` runs those of the YAML."""
    return NAME in settings.COULISSE_PROCESSES


def wanted(config: Config) -> Callable[[], bool] | None:
    """Return what tells whether there are any by now; None where none shall run."""
    if not are_run():
        return None
    had = bool(config.get(SIDECARS))
    return lambda: had or _are_in(last_valid_copy.read())


@lru_cache(maxsize=1)
def _are_in(content: bytes | None) -> bool:
    """Say whether the last content that was valid has any."""
    if content is None:
        return False
    try:
        return bool(loader.section(content, SIDECARS))
    except ConfigInvalid:
        return False
