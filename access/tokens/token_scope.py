"""Validates a token's agents against the configured ones."""

from collections.abc import Iterable

from django.conf import settings
from django.utils.module_loading import import_string

from access.errors import NewTokenInvalid
from config.sections import Config
from config.validation.suggestions import did_you_mean


def check_agents(names: Iterable[str], config: Config) -> None:
    """Raise `NewTokenInvalid` for an unknown agent: a token cannot be changed later."""
    agents: list[str] = import_string(settings.COULISSE_AGENT_NAMES)(config)
    for name in names:
        if name not in agents:
            raise NewTokenInvalid(
                f"there is no agent '{name}' (agents: {', '.join(agents)})"
                f"{did_you_mean(name, agents)}",
                "agents",
            )
