"""Celery tasks: deletion of expired rows."""

from datetime import UTC, datetime

from celery import shared_task

from mcp_bridge.oauth import token_store, used_links


@shared_task(name="mcp_bridge.tasks.delete_expired", ignore_result=True)
def delete_expired() -> None:
    """Delete used links and sign-ins that have expired."""
    now = datetime.now(UTC)
    used_links.delete_expired(now)
    token_store.delete_expired(now)
