"""Who changed what, when and from where: written with the change, never changed.

Entries name things by their ids. They hold no secret and no text of a user's, so they
stay when a user is erased.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from django.db import transaction
from django.db.models import Q

from access.audit import audit_events
from access.audit.audit_events import AuditEvent
from access.models import AuditEntry
from core.text import redaction

P = ParamSpec("P")
T = TypeVar("T")

Cursor = tuple[datetime, int]
"""Where a page ends: an entry's `at` and `id`."""

MAX_ENTRIES_READ = 10_000
MAX_DETAIL_LENGTH = 500
"""Characters of one text among the details."""


def write(deed: AuditEvent) -> None:
    """Write a deed down; in one INSERT, in the caller's transaction."""
    AuditEntry.objects.create(
        at=datetime.now(UTC),
        action=_single_line(deed.action, 64),
        actor=_single_line(deed.actor.name, 512),
        target=_single_line(deed.target, 512),
        origin=_single_line(deed.actor.origin, 255),
        details=_storable(deed.details),
        request_id=_single_line(deed.request_id, 128),
    )


def run_recorded(
    deed: AuditEvent | Callable[[T], AuditEvent | None],
    change: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Make a change and write it down, both or neither; return what it returns.

    What can be told only afterwards is told by a function of what the change returns;
    it returns None where nothing was changed, of which no word is written.
    """
    with transaction.atomic():
        result = change(*args, **kwargs)
        done = deed if isinstance(deed, AuditEvent) else deed(result)
        if done is not None:
            write(done)
    return result


def recorded_at_the_terminal(action: str, target: str, change: Callable[[str], T]) -> T:
    """Make a change that a command asks for and write it down, both or neither.

    `change` is called with the actor. For apps below this one, by
    `settings.COULISSE_COMMAND_AUDIT`.
    """
    by = audit_events.terminal_actor()
    return run_recorded(AuditEvent(action, by, target), change, by.name)


def page_entries(
    *,
    action: str | None = None,
    actor: str | None = None,
    target: str | None = None,
    since: datetime | None = None,
    after: Cursor | None = None,
    limit: int = 50,
) -> tuple[list[AuditEntry], bool]:
    """Return entries, the newest first, and whether there are more.

    An action may be a family: `token` is every `token.…`. Actor and target are parts of
    theirs, in any case of letters. `after` is the place of the last one seen.
    """
    entries = AuditEntry.objects.order_by("-at", "-id")
    if action is not None:
        entries = entries.filter(Q(action=action) | Q(action__startswith=f"{action}."))
    if actor is not None:
        entries = entries.filter(actor__icontains=actor)
    if target is not None:
        entries = entries.filter(target__icontains=target)
    if since is not None:
        entries = entries.filter(at__gte=since)
    if after is not None:
        at, last_id = after
        entries = entries.filter(Q(at__lt=at) | Q(id__lt=last_id), at__lte=at)
    found = list(entries[: limit + 1])
    return found[:limit], len(found) > limit


def _single_line(text: str, most: int) -> str:
    """Return a text as a column holds it: one line, with nothing a terminal obeys."""
    # Nobody hands a secret in; where one gets here all the same, it ends here.
    text = redaction.redact_all(text[:MAX_ENTRIES_READ])
    seen = "".join(c if c.isprintable() else "\ufffd" for c in text[: most + 1])
    return seen if len(seen) <= most else f"{seen[: most - 1]}…"


def _storable(value: Any) -> Any:
    """Return what JSON in every database takes: PostgreSQL's has no NUL and no NaN."""
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
