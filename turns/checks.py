"""What `manage.py check` says of what is remembered."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core import checks

from config import loader
from config.errors import ConfigInvalid
from memory import plan, state


def check_memory(*, databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of what is stored and does not fit what is configured.

    Not while tables are being made, which asks for checks too.
    """
    path = Path(settings.COULISSE_CONFIG)
    if databases or not path.exists():
        return []
    try:
        users = plan.of_users(loader.load(path))
    except ConfigInvalid:
        return []  # The configuration's own check says why.
    found = state.concerns(users) if users is not None else ()
    return [checks.Warning(message, id=kind) for kind, message in found]
