"""Validates webhook requests: sender, delivery id, payload.

Sources: "Validating webhook deliveries" of GitHub, "Verifying requests from Slack".
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from pydantic import SecretStr

from access.users import identity
from config.sections import Config
from core.errors import Invalid, Unauthenticated
from triggers.config import DEFAULT_HEADER, WebhookTrigger
from triggers.runs import trigger_runs
from triggers.runs.trigger_runs import TriggerEvent
from triggers.webhooks import prompt_templates
from triggers.webhooks.prompt_templates import NestingTooDeep, PathMissing
from turns.preparation import options

MAX_AGE_SECONDS = 300
"""A larger difference to the signed time means a replayed request."""
MAX_AGENT_LENGTH = 255
DELIVERY_HEADERS = ("Idempotency-Key", "X-GitHub-Delivery", "X-Gitlab-Event-UUID")
"""Headers with a sender's delivery id, which stays the same in repetitions."""


class SignatureRefused(Unauthenticated):
    """The webhook's secret or signature is missing or wrong."""

    code = "signature_refused"


class PayloadInvalid(Invalid):
    """The body is not valid for this webhook."""

    code = "payload_invalid"


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    headers: Mapping[str, str]
    """Header names are case-insensitive."""
    body: bytes


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """An authenticated request and its payload."""

    payload: Any
    id: str | None
    """The same for all repetitions of a delivery; None if unknown."""
    challenge_reply: Mapping[str, Any] | None = None
    """The response to a sender's URL verification; such a request starts nothing."""


def read_delivery(
    trigger: WebhookTrigger, post: WebhookRequest, now: datetime
) -> WebhookDelivery:
    """Return the authenticated delivery.

    Raises `SignatureRefused` for a wrong secret or an old request, and `PayloadInvalid`
    for a body that is not JSON.
    """
    signature = _check_sender(trigger, post, now)
    try:
        payload = orjson.loads(post.body)
    except orjson.JSONDecodeError as exc:
        raise PayloadInvalid(
            f"The body is not JSON: {exc}; configure the sender to send "
            "application/json"
        ) from exc
    return WebhookDelivery(
        payload,
        _delivery_id(trigger, post, payload, signature),
        _challenge_reply(trigger, post, payload),
    )


def _check_sender(trigger: WebhookTrigger, post: WebhookRequest, now: datetime) -> str:
    """Return the signature if it is valid; empty if the webhook is not signed."""
    if trigger.secret is None:
        return ""
    match trigger.signature:
        case "github":
            return _check_github(trigger.secret, post)
        case "slack":
            return _check_slack(trigger.secret, post, now)
        case _:
            _check_header(trigger.secret, trigger.header, post)
            return ""


def _check_header(secret: SecretStr, header: str, post: WebhookRequest) -> None:
    given = post.headers.get(header, "").strip()
    if header.lower() == DEFAULT_HEADER.lower():
        scheme, _, given = given.partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else ""
        place = "as `Authorization: Bearer SECRET`"
    else:
        place = f"in the header {header}"
    if not _is_equal(given, secret.get_secret_value()):
        raise SignatureRefused(
            f"The webhook's secret is missing or wrong: send it {place}"
        )


def _check_github(secret: SecretStr, post: WebhookRequest) -> str:
    given = post.headers.get("X-Hub-Signature-256", "").strip()
    if not _is_equal(given, f"sha256={_hmac(secret, post.body)}"):
        raise SignatureRefused(
            "X-Hub-Signature-256 does not match this body and this webhook's secret"
        )
    return given


def _check_slack(secret: SecretStr, post: WebhookRequest, now: datetime) -> str:
    stamp = post.headers.get("X-Slack-Request-Timestamp", "").strip()
    given = post.headers.get("X-Slack-Signature", "").strip()
    signed = b"v0:%s:%s" % (stamp.encode("latin-1", "replace"), post.body)
    if not _is_equal(given, f"v0={_hmac(secret, signed)}"):
        raise SignatureRefused(
            "X-Slack-Signature does not match this body, X-Slack-Request-Timestamp and "
            "this webhook's secret"
        )
    if not _is_recent(stamp, now):
        raise SignatureRefused(
            f"X-Slack-Request-Timestamp is more than {MAX_AGE_SECONDS} seconds from now"
        )
    return given


def _hmac(secret: SecretStr, signed: bytes) -> str:
    key = secret.get_secret_value().encode()
    return hmac.new(key, signed, hashlib.sha256).hexdigest()


def _is_equal(actual: str, expected: str) -> bool:
    # As bytes, because compare_digest accepts only ASCII strings.
    return hmac.compare_digest(actual.encode("utf-8", "replace"), expected.encode())


def _is_recent(stamp: str, now: datetime) -> bool:
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) <= 12):
        return False
    return abs(int(stamp) - now.timestamp()) <= MAX_AGE_SECONDS


def _delivery_id(
    trigger: WebhookTrigger, post: WebhookRequest, payload: Any, signature: str
) -> str | None:
    """Return the unique id of a delivery.

    Slack signs the time, so its signature identifies the request, and an unsigned
    header cannot make an old one new. GitHub signs only the body, and two bodies may be
    equal, so its delivery id counts.
    """
    event = payload.get("event_id") if isinstance(payload, dict) else None
    if trigger.secret is not None and trigger.signature == "slack":
        return event if event and isinstance(event, str) else signature
    names = list(DELIVERY_HEADERS)
    if trigger.signature == "github":
        names.sort(key=lambda name: name != "X-GitHub-Delivery")
    given = (post.headers.get(name, "").strip() for name in names)
    return next(filter(None, given), signature or None)


def _challenge_reply(
    trigger: WebhookTrigger, post: WebhookRequest, payload: Any
) -> Mapping[str, Any] | None:
    if trigger.signature == "github" and post.headers.get("X-GitHub-Event") == "ping":
        return {"ok": True, "task_id": None}
    if (
        trigger.signature == "slack"
        and isinstance(payload, dict)
        and payload.get("type") == "url_verification"
    ):
        return {"challenge": payload.get("challenge")}
    return None


def build_event(
    config: Config, trigger: WebhookTrigger, delivery: WebhookDelivery
) -> TriggerEvent:
    """Return the event of a delivery.

    Raises `PayloadInvalid` if the agent, user or thread is missing, the prompt is
    empty, or the payload is nested too deeply; `TasksDisabled` if tasks are off.
    """
    try:
        return _render_event(config, trigger, delivery)
    except NestingTooDeep as exc:
        raise PayloadInvalid(
            "The body is nested too deeply to insert a value of it into the prompt"
        ) from exc


def _render_event(
    config: Config, trigger: WebhookTrigger, delivery: WebhookDelivery
) -> TriggerEvent:
    payload = delivery.payload
    agent = _render_field(
        trigger.agent, payload, field="agent", max_length=MAX_AGENT_LENGTH
    )
    user = thread = None
    if trigger.user is not None:
        user = _render_field(
            trigger.user, payload, field="user", max_length=identity.MAX_LENGTH
        )
    if trigger.thread is not None:
        thread = _render_field(
            trigger.thread,
            payload,
            field="thread",
            max_length=options.MAX_THREAD_LENGTH,
        )
    prompt = prompt_templates.render(trigger.prompt, payload)
    if not prompt.strip():
        raise PayloadInvalid("The prompt is empty with the values of this body")
    return TriggerEvent(
        trigger,
        trigger_runs.resolve_user(config, trigger, user),
        agent,
        prompt,
        thread,
        key=_idempotency_key(trigger, delivery.id),
        max_failures=trigger_runs.max_attempts(config),
    )


def _render_field(template: str, payload: Any, *, field: str, max_length: int) -> str:
    try:
        text = prompt_templates.render(template, payload, is_strict=True).strip()
    except PathMissing as exc:
        raise PayloadInvalid(
            f"The body has no value at '{exc.path}', which selects the {field}"
        ) from exc
    if not text or "\0" in text:
        raise PayloadInvalid(f"The body's name of the {field} is not valid")
    if len(text) > max_length:
        raise PayloadInvalid(
            f"The body's name of the {field} has {len(text)} characters; the limit is "
            f"{max_length}"
        )
    return text


def _idempotency_key(trigger: WebhookTrigger, delivery_id: str | None) -> str | None:
    if delivery_id is None:
        return None
    # Hashed, because delivery ids may have any length.
    digest = hashlib.sha256(delivery_id.encode("utf-8", "replace")).hexdigest()
    return f"webhook:{trigger.name}:{digest}"
