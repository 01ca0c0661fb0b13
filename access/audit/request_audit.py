"""Audit events of requests that change something."""

from typing import Any

from django.http import HttpRequest

from access.audit import audit_events
from access.audit.audit_events import AuditEvent
from access.users.caller import caller_of
from core.ids import UserId


def build_event(
    request: HttpRequest, action: str, user_id: UserId, target: str = "", **details: Any
) -> AuditEvent:
    """Return the event of a request on a user's object, or on the user without one."""
    caller = caller_of(request)
    actor = audit_events.request_actor(caller, user_id, client_address(request))
    if not target:
        return AuditEvent(action, actor, str(user_id), details)
    return AuditEvent(action, actor, target, {"user": str(user_id), **details})


def client_address(request: HttpRequest) -> str:
    """Return the source address of a request.

    That is the peer's address and, from a proxy, the client's address in its header: a
    client that connects directly may forge the latter.
    """
    peer: str = request.META.get("REMOTE_ADDR") or "a unix socket"
    forwarded = request.headers.get("X-Forwarded-For")
    return f"{peer}, forwarded for {forwarded}" if forwarded else peer
