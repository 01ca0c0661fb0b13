"""The MCP servers that users signed in to, for export and erasure."""

from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, Field

from database.user_data import Export, ExportedRow, UserTable
from mcp_bridge.models import McpToken


class ExportedConnection(ExportedRow):
    """An MCP server that the user connected, without the tokens."""

    server: str
    url: str = Field(validation_alias="resource")
    scopes: Annotated[list[str], BeforeValidator(str.split)]
    connected_at: datetime = Field(validation_alias="created_at")
    updated_at: datetime
    expires_at: datetime | None


TABLES = (
    UserTable(
        "mcp_tokens",
        McpToken,
        erased=60,
        export=Export(
            "connections", ExportedConnection, McpToken.objects.without_secrets
        ),
    ),
)
