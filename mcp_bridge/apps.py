"""The Django app of the MCP bridge."""

from django.apps import AppConfig


class McpBridgeApp(AppConfig):
    name = "mcp_bridge"

    def ready(self) -> None:
        from mcp_bridge import checks  # noqa: F401  # registers them
