"""What requests change, as the audit will tell it."""

from typing import Any

from django.http import HttpRequest

from access.audit import audit_events
from access.audit.audit_events import AuditEvent
from access.users.caller import caller_of
from core.ids import UserId


def build_event(
    request: HttpRequest, action: str, user_id: UserId, target: str = "", **details: Any
) -> AuditEvent:
    """Return what a request does to something of a user's; without one, to the user."""
    caller = caller_of(request)
    by = audit_events.request_actor(caller, user_id, client_address(request))
    if not target:
        return AuditEvent(action, by, str(user_id), details)
    return AuditEvent(action, by, target, {"user": str(user_id), **details})


def client_address(request: HttpRequest) -> str:
    """Return where a request comes from.

    That is who connected to us and, from a proxy, for whom: a client that connects
    directly may make up the latter.
    """
    peer: str = request.META.get("REMOTE_ADDR") or "a unix socket"
    forwarded = request.headers.get("X-Forwarded-For")
    return f"{peer}, forwarded for {forwarded}" if forwarded else peer
