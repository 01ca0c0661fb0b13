"""Deletion of a thread at its user's request, in two steps.

The confirmation is signed and names the thread's row, so that it can be used once.
"""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.core import signing
from django.db import transaction
from django.db.models import Q

from core.ids import UserId
from memory.errors import ConfirmationExpired, ConfirmationInvalid, ThreadUnknown
from memory.facts import forgetting
from memory.models import Fact, FactMessage, Summary, Thread
from memory.models.fact_queryset import FactQuerySet
from memory.transcript import message_deletion

CONFIRMATION_LIFETIME = timedelta(minutes=15)
SALT = "memory.thread_deletion"


@dataclass(frozen=True, slots=True)
class DeletionCounts:
    """The numbers of rows that go with a thread."""

    messages: int
    summaries: int
    facts: int
    """Facts that are forgotten, and facts of the thread's scope."""


@dataclass(frozen=True, slots=True)
class DeletionRequest:
    """A deletion that awaits confirmation."""

    confirmation: str
    expires_at: datetime
    would_delete: DeletionCounts


def request_deletion(
    user_id: UserId, name: str, *, forgets_facts: bool
) -> DeletionRequest:
    """Return a confirmation, and what it deletes; raises `ThreadUnknown`."""
    thread = _find(user_id, name)
    return DeletionRequest(
        signing.dumps(_subject(thread, forgets_facts=forgets_facts), salt=SALT),
        datetime.now(UTC) + CONFIRMATION_LIFETIME,
        _count(thread, forgets_facts=forgets_facts),
    )


def forget_facts(user_id: UserId, name: str, confirmation: str) -> int:
    """Forget the facts of a thread whose deletion is confirmed; return how many.

    Each in a transaction of its own, because one takes some 0.1 s, in which others
    wait. Raises what `confirm_deletion` does.
    """
    thread = _find(user_id, name)
    _check(confirmation, _subject(thread, forgets_facts=True))
    fact_ids = list(_facts(thread).values_list("pk", flat=True))
    reason = "its thread was deleted"
    forgetting.forget_all(user_id, fact_ids, by="user", reason=reason)
    return len(fact_ids)


def confirm_deletion(
    user_id: UserId, name: str, confirmation: str, *, forgets_facts: bool
) -> DeletionCounts:
    """Delete a thread; return what was deleted, without forgotten facts.

    Raises `ThreadUnknown`, `ConfirmationExpired`, and `ConfirmationInvalid` for the
    confirmation of another thread or of other facts.
    """
    with transaction.atomic():
        # First, as wherever messages are deleted.
        Thread.objects.lock_of_user(user_id)
        thread = _find(user_id, name)
        _check(confirmation, _subject(thread, forgets_facts=forgets_facts))
        deleted = _count(thread, forgets_facts=False)
        message_deletion.delete_thread(user_id, name)
    return deleted


def _find(user_id: UserId, name: str) -> Thread:
    thread = Thread.objects.filter(user_id=user_id, name=name).first()
    if thread is None:
        raise ThreadUnknown
    return thread


def _subject(thread: Thread, *, forgets_facts: bool) -> str:
    return f"{thread.user_id}:{thread.pk}:{forgets_facts}"


def _check(confirmation: str, subject: str) -> None:
    try:
        signed = signing.loads(confirmation, salt=SALT, max_age=CONFIRMATION_LIFETIME)
    except signing.SignatureExpired as exc:
        raise ConfirmationExpired from exc
    except signing.BadSignature as exc:
        raise ConfirmationInvalid from exc
    if not secrets.compare_digest(str(signed), subject):
        raise ConfirmationInvalid


def _facts(thread: Thread) -> FactQuerySet:
    """Return the facts that a message of the thread mentions."""
    links = FactMessage.objects.filter(message__thread=thread).values("fact")
    facts = Fact.objects.filter(user_id=thread.user_id)
    mentioned = facts.filter(Q(message__thread=thread) | Q(pk__in=links))
    return mentioned.exclude(status="deleted")


def _count(thread: Thread, *, forgets_facts: bool) -> DeletionCounts:
    own = Fact.objects.of_thread(thread.user_id, thread.name)
    facts = own.exclude(status="deleted")
    if forgets_facts:
        facts = facts | _facts(thread)
    return DeletionCounts(
        thread.messages.count(),
        Summary.objects.filter(thread=thread).count(),
        facts.count(),
    )
