"""The audit log: entries are written with their change, and never change.

Entries identify things by their ids. They hold no secret and no user's text, so they
stay when a user is erased.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from django.db import transaction
from django.http import HttpRequest

from access.audit import audit_events
from access.audit.audit_events import AuditEvent
from access.authentication import accounts
from access.models import AuditEntry
from core.text import redaction
from core.text.sanitization import truncate

P = ParamSpec("P")
T = TypeVar("T")

MAX_TEXT_READ = 10_000
"""Characters of a text that are redacted; further ones are dropped."""
MAX_DETAIL_LENGTH = 500
"""Characters of one text in the details."""


def write(event: AuditEvent) -> None:
    """Store an event, with one INSERT, in the caller's transaction."""
    AuditEntry.objects.create(
        at=datetime.now(UTC),
        action=_single_line(event.action, 64),
        actor=_single_line(event.actor.name, 512),
        target=_single_line(event.target, 512),
        origin=_single_line(event.actor.origin, 255),
        details=_storable(event.details),
        request_id=_single_line(event.request_id, 128),
    )


def run_recorded(
    event: AuditEvent | Callable[[T], AuditEvent | None],
    change: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Make a change and store its event in one transaction; return the result.

    Details that are known only after the change come from a function of its result; it
    returns None if nothing changed, and then no event is stored.
    """
    with transaction.atomic():
        result = change(*args, **kwargs)
        recorded = event if isinstance(event, AuditEvent) else event(result)
        if recorded is not None:
            write(recorded)
    return result


def run_terminal_change(action: str, target: str, change: Callable[[str], T]) -> T:
    """Make a command's change and store its event in one transaction.

    `change` is called with the actor. Apps below this one use it through
    `settings.COULISSE_COMMAND_AUDIT`.
    """
    actor = audit_events.terminal_actor()
    return run_recorded(AuditEvent(action, actor, target), change, actor.name)


def record_studio_change(
    request: HttpRequest, action: str, target: str, details: Mapping[str, Any]
) -> None:
    """Store a change in the studio; `settings.COULISSE_AUDIT` names this function."""
    write(AuditEvent(action, accounts.request_actor(request), target, details))


def _single_line(text: str, max_length: int) -> str:
    """Return a text for a column: one line, without terminal control characters."""
    # Callers pass no secrets; this redacts one that is passed by mistake.
    text = redaction.redact_all(text[:MAX_TEXT_READ])[: max_length + 1]
    line = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return truncate(line, max_length)


def _storable(value: Any) -> Any:
    """Return JSON data that every database accepts: PostgreSQL rejects NUL and NaN."""
    if isinstance(value, Mapping):
        return {
            _single_line(str(key), 64): _storable(each) for key, each in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_storable(each) for each in value]
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return _single_line(str(value), MAX_DETAIL_LENGTH)
