"""List users' sign-ins to an MCP server, without tokens."""

from datetime import datetime
from typing import Any

from django.db.models import Q

from mcp_bridge.models import McpToken

Cursor = tuple[datetime, int]
"""The end of a page: a sign-in's `created_at` and `id`."""

COLUMNS = (
    *("id", "user_id", "resource", "scopes", "expires_at"),
    *("created_at", "updated_at"),
)


def page_connections(
    server: str, *, now: datetime, after: Cursor | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], bool]:
    """Return users' sign-ins to a server, newest first, and whether there are more.

    `is_over` marks a sign-in whose token has expired and cannot be refreshed.
    """
    rows = McpToken.objects.filter(server=server).order_by("-created_at", "-id")
    if after is not None:
        at, last_id = after
        older = Q(created_at__lt=at) | Q(id__lt=last_id)
        rows = rows.filter(older, created_at__lte=at)
    renews = {"renews": Q(refresh_token__isnull=False)}
    found = list(rows.annotate(**renews).values(*COLUMNS, "renews")[: limit + 1])
    for row in found:
        ends = row["expires_at"]
        row["is_over"] = not row["renews"] and ends is not None and ends <= now
    return found[:limit], len(found) > limit
