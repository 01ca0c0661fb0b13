"""`/hooks/…`: a JSON POST starts an agent, as `triggers:` configures.

`auth.proxy` does not apply: each webhook has a secret of its own.
"""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from api_base.json_responses import json_response
from config import live
from config.sections import Config
from core.errors import CoulisseError, NotFound
from core.text.sanitization import escape_and_truncate
from database import database_executor
from gateway import errors
from gateway.auth import authentication
from triggers import config as triggers_config
from triggers.config import WebhookTrigger
from triggers.runs import run_log
from triggers.runs.trigger_runs import TriggerRun
from triggers.webhooks import deliveries, webhook_runs
from triggers.webhooks.deliveries import WebhookRequest


class HookUnknown(NotFound):
    """No webhook has this path."""

    code = "webhook_not_found"


async def serve_webhook(request: HttpRequest, path: str) -> HttpResponse:
    """Serve a request to any address under /hooks/."""
    trigger = None
    try:
        config = live.current()
        trigger = find_webhook(request)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        return json_response(await _run_webhook(config, trigger, request))
    except CoulisseError as exc:
        if trigger is not None:
            _log_refusal(trigger, exc)
        return errors.on_domain_error(request, exc)


def find_webhook(request: HttpRequest) -> WebhookTrigger:
    """Return the webhook at a request's path; raises `HookUnknown`."""
    trigger = triggers_config.find_webhook(live.current(), request.path)
    if trigger is None:
        path = escape_and_truncate(request.path)
        raise HookUnknown(f"No webhook has the path '{path}'")
    return trigger


def log_refusal(request: HttpRequest, error: CoulisseError) -> None:
    """Log a webhook call whose body is not read."""
    with suppress(CoulisseError):
        _log_refusal(find_webhook(request), error)


def _log_refusal(trigger: WebhookTrigger, error: CoulisseError) -> None:
    run_log.log_event("webhook trigger refused", trigger.name, reason=str(error))


async def _run_webhook(
    config: Config, trigger: WebhookTrigger, request: HttpRequest
) -> dict[str, Any]:
    if trigger.secret is None:
        # A web page open in this network could post without permission.
        authentication.check_origin(request)
    post = WebhookRequest(request.headers, request.body)
    delivery = deliveries.read_delivery(trigger, post, datetime.now(UTC))
    if delivery.challenge_reply is not None:
        return dict(delivery.challenge_reply)
    event = deliveries.build_event(config, trigger, delivery)
    run = await database_executor.run_to_end(webhook_runs.run_webhook, event)
    return _serialize_run(run)


def _serialize_run(run: TriggerRun) -> dict[str, Any]:
    task_id = None if run.task_id is None else str(run.task_id)
    response: dict[str, Any] = {"ok": True, "task_id": task_id}
    # The reference documents only these two fields for a run.
    return response if run.outcome == "started" else {**response, "reason": run.outcome}
