"""What `manage.py check` says of triggers that work, and may not be meant so.

| id | what may be wrong |
|---|---|
| coulisse.W601 | a webhook without a secret is reached by more than this machine |
"""

from typing import Any

from django.core import checks

from config import checked
from config.config import SERVER
from config.sections import Config
from core.loopback import is_loopback
from tasks.triggers_config import TRIGGERS, WebhookTrigger

OPEN_WEBHOOK = "coulisse.W601"


def check_triggers(**_: Any) -> list[checks.CheckMessage]:
    """Warn of webhooks that anybody on the network can fire."""
    config = checked.load()
    if config is None:
        return []
    return [
        checks.Warning(
            f"trigger '{name}' has no secret, so whoever reaches this server can "
            "fire it; set 'secret', or server.bind to 127.0.0.1",
            id=OPEN_WEBHOOK,
        )
        for name in open_webhooks(config)
    ]


def open_webhooks(config: Config) -> list[str]:
    """Return the names of webhooks that more than this machine can fire."""
    if is_loopback(config.get(SERVER).bind):
        return []
    return [
        trigger.name
        for trigger in config.get(TRIGGERS)
        if isinstance(trigger, WebhookTrigger)
        and trigger.enabled
        and trigger.secret is None
    ]
