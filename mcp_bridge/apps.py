"""The bridge to MCP servers as Django knows it."""

from django.apps import AppConfig
from django.core import checks


class McpBridgeApp(AppConfig):
    name = "mcp_bridge"

    def ready(self) -> None:
        # Only now: settings name the sections it reads.
        from mcp_bridge.checks import check_secrets

        checks.register(check_secrets)
