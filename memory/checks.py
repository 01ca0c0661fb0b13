"""System checks: whether the stored data fits the configuration."""

from typing import Any

from django.core import checks

from config.loading import checked_file
from memory import memory_settings
from memory.maintenance import alerts


@checks.register
def check_memory(*, databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of stored data that does not fit the configuration.

    Skipped during migrations, which run checks too.
    """
    config = None if databases else checked_file.load()
    users = None if config is None else memory_settings.resolve_for_users(config)
    found = alerts.find_alerts(users) if users is not None else ()
    return [checks.Warning(message, id=kind) for kind, message in found]
