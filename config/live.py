"""The configuration this process runs with."""

import threading
from pathlib import Path

from django.conf import settings

from config import loader
from config.document import Config

_current: Config | None = None
_first_load = threading.Lock()


def current() -> Config:
    """Return the configuration in force; raises `ConfigInvalid` if none ever was."""
    config = _current
    return config if config is not None else _load()


def _load() -> Config:
    with _first_load:
        if _current is None:
            replace(loader.load(Path(settings.COULISSE_CONFIG)))
    assert _current is not None  # noqa: S101 (tells mypy what replace() did)
    return _current


def replace(config: Config | None) -> None:
    """Put a configuration in force; None makes the next reader load the file."""
    global _current
    _current = config
