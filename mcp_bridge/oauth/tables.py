"""The tables of sign-ins, for async code.

Async code imports no models. It receives rows from the database executor, and hands
the methods of these classes to it.
"""

from mcp_bridge.models import McpClient, McpToken, McpUsedLink

__all__ = ["McpClient", "McpToken", "McpUsedLink"]
