"""The file that `manage.py check` is about."""

from pathlib import Path

from django.conf import settings

from config.errors import ConfigInvalid
from config.loading import loader
from config.sections import Config


def load() -> Config | None:
    """Return what the file says; None where there is none, or it is not valid.

    The configuration's own check tells why: no other has anything to add then.
    """
    path = Path(settings.COULISSE_CONFIG)
    if not path.exists():
        return None
    try:
        return loader.load_file(path)
    except ConfigInvalid:
        return None
