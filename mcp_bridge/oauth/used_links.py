"""Links that were used."""

from datetime import datetime

from mcp_bridge.models import McpUsedLink


def mark_used(nonce: str, expires_at: datetime) -> bool:
    """Use a link; of all who try, also at the same time, one may."""
    _, is_first = McpUsedLink.objects.get_or_create(
        nonce=nonce, defaults={"expires_at": expires_at}
    )
    return is_first


def is_used(nonce: str) -> bool:
    """Return whether a link was used."""
    return McpUsedLink.objects.filter(nonce=nonce).exists()


def delete_expired(now: datetime) -> int:
    """Delete the links that have expired; return how many."""
    return McpUsedLink.objects.filter(expires_at__lte=now).delete()[0]
