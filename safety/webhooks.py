"""Reports incidents to webhooks: a task sends each, and is retried like all tasks."""

import asyncio
from typing import Any

import httpx2

from config import live
from core.errors import NotFound, Upstream
from database import database_executor
from safety import incidents
from safety.config import SAFETY, WebhookConfig
from tasks.queue.claimed_task import ClaimedTask
from tasks.queue.task_kinds import TaskOutcome

TIMEOUT_SECONDS = 10.0


class WebhookFailed(Upstream):
    """The webhook did not accept the incident."""

    code = "webhook_failed"


class WebhookRefused(NotFound):
    """The webhook refused the incident."""

    code = "webhook_refused"


async def run(task: ClaimedTask) -> TaskOutcome:
    """Send an incident; one that was erased, or whose check is gone, is not sent."""
    found = await database_executor.run(incidents.describe, task.payload["incident"])
    if found is None:
        return TaskOutcome("the incident was deleted")
    webhook = _find_webhook(found["check"], found["level"])
    if webhook is None:
        return TaskOutcome("the webhook is no longer configured")
    return TaskOutcome(f"status {await _send(webhook, found)}")


def _find_webhook(name: str, level: str) -> WebhookConfig | None:
    for check in live.current().get(SAFETY).checks:
        if check.name == name:
            return check.action(level).webhook
    return None


async def _send(webhook: WebhookConfig, body: dict[str, Any]) -> int:
    """Return the status; raises `WebhookFailed`, and `WebhookRefused` for good.

    The body of the response is not read. Redirects are not followed.
    """
    headers = {
        name: value.get_secret_value() for name, value in webhook.headers.items()
    }
    try:
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            httpx2.AsyncClient(timeout=None) as client,
            client.stream("POST", webhook.url, headers=headers, json=body) as response,
        ):
            status = response.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:  # TimeoutError, too
        raise WebhookFailed(
            f"the webhook cannot be reached ({type(exc).__name__})"
        ) from exc
    if status >= 500 or status in (408, 429):
        raise WebhookFailed(f"the webhook returned {status}")
    if status >= 300:
        raise WebhookRefused(f"the webhook returned {status}")
    return status
