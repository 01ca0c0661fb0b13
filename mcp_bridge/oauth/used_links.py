"""Used links."""

from datetime import datetime

from mcp_bridge.models import McpUsedLink


def mark_used(nonce: str, expires_at: datetime) -> bool:
    """Mark a link as used; only one of concurrent callers succeeds."""
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
