"""Celery's way in: deleting what expired."""

from datetime import UTC, datetime

from celery import shared_task

from mcp_bridge import links, tokens


@shared_task(name="mcp_bridge.jobs.sweep", ignore_result=True)
def sweep() -> None:
    """Delete used links and sign-ins that have expired."""
    now = datetime.now(UTC)
    links.sweep(now)
    tokens.sweep(now)
