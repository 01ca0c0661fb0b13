"""What `manage.py check` says where the configuration does not fit what is stored."""

from typing import Any

from django.core import checks

from config.loading import checked_file
from memory import memory_settings
from memory.maintenance import alerts


@checks.register
def check_memory(*, databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of what is stored and does not fit what is configured.

    Not while tables are being made, which asks for checks too.
    """
    config = None if databases else checked_file.load()
    users = None if config is None else memory_settings.resolve_for_users(config)
    found = alerts.find_alerts(users) if users is not None else ()
    return [checks.Warning(message, id=kind) for kind, message in found]
