"""The configuration file for other apps' system checks."""

from pathlib import Path

from django.conf import settings

from config.errors import ConfigInvalid
from config.loading import loader
from config.sections import Config


def load() -> Config | None:
    """Return the configuration; None if the file is missing or invalid.

    The configuration's own check reports the reason; other checks add nothing then.
    """
    path = Path(settings.COULISSE_CONFIG)
    if not path.exists():
        return None
    try:
        return loader.load_file(path)
    except ConfigInvalid:
        return None
