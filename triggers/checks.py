"""System checks of triggers that are valid but unsafe.

| id | what may be wrong |
|---|---|
| coulisse.W601 | a webhook without a secret is open to other machines |
| coulisse.W602 | a webhook's secret can be guessed |
"""

from collections.abc import Iterator
from typing import Any

from django.core import checks

from config.config import SERVER
from config.loading import checked_file
from config.sections import Config
from core.network.loopback import is_loopback
from core.text import entropy
from triggers.config import WebhookTrigger, enabled_triggers

OPEN_WEBHOOK = "coulisse.W601"
WEAK_SIGNATURE = "coulisse.W602"


@checks.register
def check_triggers(**_: Any) -> list[checks.CheckMessage]:
    """Warn of webhooks that others than their sender can run."""
    config = checked_file.load()
    return [] if config is None else [*_webhook_warnings(config)]


def _webhook_warnings(config: Config) -> Iterator[checks.CheckMessage]:
    for name in open_webhooks(config):
        yield checks.Warning(
            f"trigger '{name}' has no secret, so anyone who can reach this server can "
            "run it; set 'secret', or server.bind to 127.0.0.1",
            id=OPEN_WEBHOOK,
        )
    for name in guessable_webhooks(config):
        yield checks.Warning(
            f"the secret of trigger '{name}' can be guessed: anyone who sees a signed "
            "delivery can try passwords on it offline, and logs do not redact it. Use "
            "a random one, such as from `openssl rand -hex 32`",
            id=WEAK_SIGNATURE,
        )


def open_webhooks(config: Config) -> list[str]:
    """Return the names of webhooks that other machines can run without a secret."""
    if is_loopback(config.get(SERVER).bind):
        return []
    webhooks = enabled_triggers(config, WebhookTrigger)
    return [trigger.name for trigger in webhooks if trigger.secret is None]


def guessable_webhooks(config: Config) -> list[str]:
    """Return the names of webhooks whose secret is not a random key."""
    return [
        trigger.name
        for trigger in enabled_triggers(config, WebhookTrigger)
        if trigger.secret is not None
        and not entropy.is_strong(trigger.secret.get_secret_value())
    ]
