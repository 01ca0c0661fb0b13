"""System checks of the keys for users' sign-ins.

| id | error |
|---|---|
| coulisse.E521 | a key in the environment or in `.coulisse/secrets.env` is invalid |
"""

from typing import Any

from django.core import checks

from config.errors import SecretsInvalid
from config.loading import checked_file
from mcp_bridge.config import MCP
from mcp_bridge.oauth.crypto import secret_keys


@checks.register
def check_secrets(**_: Any) -> list[checks.CheckMessage]:
    """Refuse invalid keys if a server needs them; never create keys."""
    config = checked_file.load()
    if config is None:
        return []
    servers = config.get(MCP).values()
    if not any(server.sign_in is not None for server in servers):
        return []
    try:
        secret_keys.check_keys()
    except SecretsInvalid as exc:
        return [checks.Error(str(exc), id="coulisse.E521")]
    return []
