"""`/hooks/…`: who posts JSON here starts an agent, as `triggers:` says.

`auth.proxy` has no say here: each webhook has a secret of its own.
"""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from api_base.json_responses import json_response
from config import live
from config.sections import Config
from core.errors import CoulisseError, NotFound
from core.text.sanitization import shortened
from database import database_executor
from gateway import errors
from gateway.auth import authentication
from tasks.queue import worker_notifier
from triggers.config import WebhookTrigger, webhook
from triggers.runs import run_log, trigger_runs
from triggers.runs.trigger_runs import Firing
from triggers.webhooks import deliveries
from triggers.webhooks.deliveries import Post


class HookUnknown(NotFound):
    """No webhook has this path."""

    code = "webhook_not_found"


async def serve(request: HttpRequest, rest: str) -> HttpResponse:
    """Answer a request for anything under /hooks/."""
    trigger = None
    try:
        config = live.current()
        trigger = find(request)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        return json_response(await _answer(config, trigger, request))
    except CoulisseError as exc:
        if trigger is not None:
            run_log.refused(trigger, exc)
        return errors.on_domain_error(request, exc)


def find(request: HttpRequest) -> WebhookTrigger:
    """Return the webhook at a request's path; raises `HookUnknown`."""
    trigger = webhook(live.current(), request.path)
    if trigger is None:
        path = shortened(request.path)
        raise HookUnknown(f"No webhook has the path '{path}'")
    return trigger


def log_refusal(request: HttpRequest, error: CoulisseError) -> None:
    """Log that a webhook was called and its body is not read."""
    with suppress(CoulisseError):
        run_log.refused(find(request), error)


async def _answer(
    config: Config, trigger: WebhookTrigger, request: HttpRequest
) -> dict[str, Any]:
    if trigger.secret is None:
        # A page in a browser of this network might post without being asked.
        authentication.check_origin(request)
    post = Post(request.headers, request.body)
    delivery = deliveries.read(trigger, post, datetime.now(UTC))
    if delivery.challenge_reply is not None:
        return dict(delivery.challenge_reply)
    occasion = deliveries.occasion(config, trigger, delivery)
    firing = await database_executor.run_to_end(trigger_runs.fire, occasion)
    run_log.came_of([firing])
    if firing.outcome == "fired":
        worker_notifier.soon()
    return _told(firing)


def _told(firing: Firing) -> dict[str, Any]:
    task_id = None if firing.task_id is None else str(firing.task_id)
    told: dict[str, Any] = {"ok": True, "task_id": task_id}
    # What is documented says no more; the others say why they began nothing.
    return told if firing.outcome == "fired" else {**told, "reason": firing.outcome}
