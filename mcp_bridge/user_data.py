"""The MCP servers that users signed in to, for export and erasure."""

from collections.abc import Iterator
from typing import Any

from core.text import timestamps
from database.user_data import Export, UserTable
from mcp_bridge.models import McpToken
from mcp_bridge.oauth import token_store


def _describe(page: list[McpToken]) -> Iterator[dict[str, Any]]:
    """Yield the MCP servers a user signed in to, without the tokens."""
    for row in page:
        yield {
            "server": row.server,
            "url": row.resource,
            "scopes": row.scopes.split(),
            "connected_at": timestamps.format_time(row.created_at),
            "updated_at": timestamps.format_time(row.updated_at),
            "expires_at": timestamps.format_time(row.expires_at),
        }


TABLES = (
    UserTable(
        "mcp_tokens",
        McpToken,
        erased=60,
        export=Export("connections", _describe, token_store.without_secrets),
    ),
)
