"""Held facts: candidates that wait for the end of their session, or for a person.

No prompt, search or tool contains them. See docs/consent.md.
"""

import uuid
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef
from django.utils import timezone

from config import live
from core.errors import CoulisseError
from core.ids import UserId
from memory import memory_settings
from memory.errors import FactDecided, FactInvalid, FactUnknown
from memory.facts import fact_store, fact_validation, forgetting
from memory.models import Fact, FactMessage, FactStatus, Owner, StoredMessage
from memory.models.fact_choices import FactCategory, HeldFor
from memory.models.fact_queryset import FactQuerySet
from memory.recall import search
from memory.recall.query_embedding import NO_VECTOR
from memory.sessions import session_end
from memory.transcript import withholding

MAX_REVIEWED = 100
"""Facts that one review decides about: to reject one takes some 0.1 s."""
MAX_PROMOTED = 100
"""Facts of ended sessions that one sweep accepts; the next continues."""

Chosen = Collection[uuid.UUID] | Literal["all"]


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a person decides about held facts: by ids, or about all others.

    `accept="all"` does not accept what looks like an instruction to the agents.
    """

    accept: Chosen = ()
    reject: Chosen = ()


def count_held(user_id: UserId) -> Counter[str]:
    """Return how many facts of a user are held, by reason."""
    counted = _held(user_id).order_by().values_list("held_for").annotate(Count("pk"))
    return Counter(dict(counted))


def needs_consent() -> bool:
    """Return whether users decide about what is extracted."""
    memory = memory_settings.resolve_for_users(live.current())
    return memory is not None and memory.user_state.consent == "ask"


def promote(user_id: UserId, thread_id: int, until_position: int) -> int:
    """Accept the facts that were held until the end of a session; return how many.

    They are those of messages of the thread before a position, oldest first. Facts
    whose messages are withheld stay held, and all if the user has switched learning
    off. If the user has to agree, the facts are held for that. A second call finds
    nothing.
    """
    if not Owner.objects.of_user(user_id).is_learning_on:
        return 0
    facts = _held(user_id).filter(
        held_for=HeldFor.SESSION,
        factmessage__message__thread_id=thread_id,
        factmessage__message__position__lt=until_position,
        factmessage__message__is_withheld=False,
    )
    rows = facts.order_by("said_at", "id").values_list("pk", flat=True).distinct()
    return sum(_promote(user_id, fact_id) for fact_id in list(rows))


def promote_left_over() -> int:
    """Accept facts that are held for sessions which have ended; return how many.

    Their extraction was retried after the end, or their messages were deleted. At most
    `MAX_PROMOTED`, of all users, the oldest first; as `promote` does.
    """
    if memory_settings.resolve_for_users(live.current()) is None:
        return 0
    facts = Fact.objects.filter(
        status=FactStatus.PENDING_REVIEW, held_for=HeldFor.SESSION
    )
    links = FactMessage.objects.filter(fact=OuterRef("pk"))
    is_usable = ~Exists(links) | Exists(links.filter(message__is_withheld=False))
    learning_off = Owner.objects.filter(
        user_id=OuterRef("user_id"), is_learning_on=False
    )
    due = facts.filter(is_usable, ~Exists(learning_off))
    if session_end.current_settings(live.current()) is not None:
        in_session = links.filter(
            message__position__gte=F("message__thread__session_start")
        )
        due = due.filter(~Exists(in_session))
    rows = due.order_by("said_at", "id").values_list("user_id", "pk")
    return sum(_promote(UserId(user), pk) for user, pk in list(rows[:MAX_PROMOTED]))


def _promote(user_id: UserId, fact_id: uuid.UUID) -> bool:
    """Accept a fact at the end of its session, or hold it for its user."""
    if needs_consent():
        _hold_for_consent(user_id, fact_id)
        return False
    return _settle(user_id, fact_id, by="session") is not None


def choose(
    user_id: UserId, decisions: Decisions
) -> tuple[list[uuid.UUID], list[uuid.UUID]]:
    """Return the ids to accept and to reject, together at most `MAX_REVIEWED`.

    Of "all" they are the oldest. Ids may be unknown.
    """
    held = _held(user_id)
    rejected = _choose(decisions.reject, held.exclude(pk__in=_ids(decisions.accept)))
    harmless = held.exclude(held_for=HeldFor.INJECTION)
    accepted = _choose(decisions.accept, harmless.exclude(pk__in=rejected))
    return accepted[: MAX_REVIEWED - len(rejected)], rejected


def accept(user_id: UserId, fact_id: uuid.UUID, *, by: str) -> uuid.UUID | None:
    """Make a held fact active, as a person decided.

    Returns None if it is not held, or if it is a rule more than a user may have.
    It is reconciled with the stored facts. Returns the fact that has its content.
    """
    return _settle(user_id, fact_id, by=by, is_accepted=True)


def reject(user_id: UserId, fact_id: uuid.UUID, *, by: str) -> bool:
    """Forget a held fact; return False if it is not held.

    The messages that mention it are withheld, so that it is not extracted again.
    """
    if not _held(user_id).filter(pk=fact_id).exists():
        return False
    try:
        return forgetting.forget(
            user_id, fact_id, by=by, reason="rejected", only_held=True
        )
    except FactUnknown:  # It has become part of another fact meanwhile.
        return False


def why_undecided(user_id: UserId, fact_id: uuid.UUID) -> CoulisseError:
    """Return the reason why a fact could not be accepted or rejected."""
    fact = Fact.objects.filter(user_id=user_id, pk=fact_id).first()
    if fact is None:
        return FactDecided(
            "This fact is no longer pending review: it was deleted, or has become part "
            "of another one"
        )
    if fact.is_held:
        return FactInvalid(f"{fact_validation.TOO_MANY_RULES}: delete one first")
    return FactDecided(
        f"This fact is no longer pending review: it is {fact.current_status} now"
    )


def _held(user_id: UserId) -> FactQuerySet:
    return Fact.objects.filter(user_id=user_id, status=FactStatus.PENDING_REVIEW)


def _ids(chosen: Chosen) -> Collection[uuid.UUID]:
    return () if chosen == "all" else chosen


def _choose(chosen: Chosen, held: FactQuerySet) -> list[uuid.UUID]:
    """Return the ids that are chosen; of all that are held, the oldest."""
    if chosen != "all":
        return list(dict.fromkeys(chosen))
    rows = held.order_by("created_at", "id").values_list("pk", flat=True)
    return list(rows[:MAX_REVIEWED])


def _hold_for_consent(user_id: UserId, fact_id: uuid.UUID) -> None:
    with Owner.objects.locked(user_id) as now:
        held = _held(user_id).filter(pk=fact_id, held_for=HeldFor.SESSION).first()
        if held is not None:
            reason = {"held_for": HeldFor.CONSENT.value}
            held.change(reason, "flagged", by="session", at=now)
            Fact.objects.write(user_id, [held])


def _settle(
    user_id: UserId, fact_id: uuid.UUID, *, by: str, is_accepted: bool = False
) -> uuid.UUID | None:
    """Reconcile a held fact with the stored ones; return the fact with its content.

    Returns None if it was not held, or is held still.
    """
    # Read now: reads inside a transaction are not cached for the next search.
    search.open_index(user_id)
    with transaction.atomic():
        withholding.lock_user(user_id)
        held = _held(user_id).filter(pk=fact_id).first()
        if held is None or not (is_accepted or held.held_for == HeldFor.SESSION):
            return None
        now = timezone.now()
        if held.category == FactCategory.EPISODE:
            # It is not compared with facts.
            active = {"status": FactStatus.ACTIVE.value}
            held.change(active, "accepted", by=by, at=now, text=(None, NO_VECTOR))
            Fact.objects.write(user_id, [held])
            return held.pk
        saved = fact_store.save_held(user_id, held, now, by=by, is_accepted=is_accepted)
        if saved.outcome == "pending_review":
            return None
        _follow(user_id, saved.fact_id)
    return saved.fact_id


def _follow(user_id: UserId, fact_id: uuid.UUID) -> None:
    """Give the messages of a settled fact its importance, or withhold them with it."""
    fact = Fact.objects.get_known(user_id, fact_id)
    of_fact = StoredMessage.objects.filter(factmessage__fact=fact)
    if fact.status == FactStatus.DELETED:
        withholding.withhold(user_id, list(of_fact.values_list("pk", flat=True)))
    elif fact.status == FactStatus.ACTIVE:
        importance = fact.importance / 10
        # Without a passage, a message must not be quoted.
        raised = of_fact.filter(passage__isnull=False, importance__lt=importance)
        StoredMessage.objects.filter(
            pk__in=list(raised.values_list("pk", flat=True))
        ).update(importance=importance)
