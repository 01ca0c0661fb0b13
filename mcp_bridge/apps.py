"""The bridge to MCP servers as Django knows it."""

from django.apps import AppConfig


class McpBridgeApp(AppConfig):
    name = "mcp_bridge"

    def ready(self) -> None:
        from mcp_bridge import checks  # noqa: F401  # registers them
