"""Celery's way in: deleting what expired."""

from datetime import UTC, datetime

from celery import shared_task

from mcp_bridge.oauth import token_store, used_links


@shared_task(name="mcp_bridge.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Delete used links and sign-ins that have expired."""
    now = datetime.now(UTC)
    used_links.sweep(now)
    token_store.sweep(now)
