"""Deletes the rows of the demo, and only those."""

from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from access.limits import usage_limits
from access.models import ApiToken, AuditEntry, UsageCounter
from core.ids import UserId
from database import user_data
from demo import sample_users
from demo.rows import audit_entries, background_tasks
from demo.sample_users import DOMAIN
from memory.models import Owner, PendingErasure, Thread
from tasks.models import Task
from telemetry.models import Expense, RolledHour, Turn
from triggers.models import TriggerState
from triggers.runs import trigger_runs

BATCH_SIZE = 500
"""Users per statement."""


def count_users() -> int:
    """Return the number of demo users; 0 if there is no demo."""
    entries = AuditEntry.objects.filter(action=audit_entries.ACTION)
    return max((entry.details["users"] for entry in entries), default=0)


def is_used_by_others() -> bool:
    """Return whether the database has users besides the demo's."""
    demo_ids = {
        user_id for ids in sample_users.all_ids(count_users()) for user_id in ids
    }
    return any(
        user_id not in demo_ids
        for model in (Owner, Thread, Turn, Task)
        for user_id in _users(model)
    )


def _users(model: Any) -> Iterator[UserId]:
    user_ids = model.objects.order_by().values_list("user_id", flat=True).distinct()
    yield from user_ids.iterator()


def delete_demo() -> int:
    """Delete the demo in one transaction; return the number of rows."""
    with transaction.atomic():
        for ids in sample_users.all_ids(count_users()):
            RolledHour.objects.open_again(ids)
        rows = sum(
            _delete(queryset)
            for ids in sample_users.all_ids(count_users(), BATCH_SIZE)
            for queryset in _rows_of_users(ids)
        )
        rows += sum(_delete(queryset) for queryset in _rows_without_user())
    return rows


def _rows_of_users(ids: list[UserId]) -> list[QuerySet[Any]]:
    """Return all rows of some users, in an order in which they can be deleted."""
    return [
        *(table.rows(ids) for table in user_data.erasable()),
        UsageCounter.objects.filter(subject__in=map(usage_limits.user_subject, ids)),
        PendingErasure.objects.filter(user_id__in=ids),
    ]


def _rows_without_user() -> Iterator[QuerySet[Any]]:
    """Yield the rest: tokens, expenses of judges, triggers, audit entries."""
    tokens = ApiToken.objects.filter(principal__endswith=f"@{DOMAIN}")
    subjects = [usage_limits.token_subject(token) for token in tokens]
    yield UsageCounter.objects.filter(subject__in=subjects)
    yield tokens
    for entry in AuditEntry.objects.filter(action=audit_entries.ACTION):
        for span in entry.details["expenses"]:
            yield Expense.objects.filter(pk__range=span)
    for name in background_tasks.TRIGGERS:
        # A trigger that has also run outside the demo has tasks of other users.
        if not Task.objects.of_origin(trigger_runs.task_origin(name)).exists():
            yield TriggerState.objects.filter(pk=name)
    yield AuditEntry.objects.filter(
        Q(actor=audit_entries.ACTOR) | Q(actor__endswith=f"@{DOMAIN}")
    )


def _delete(rows: QuerySet[Any]) -> int:
    # One DELETE: `delete()` reads every row to find related ones.
    return int(rows._raw_delete(rows.db) or 0)
