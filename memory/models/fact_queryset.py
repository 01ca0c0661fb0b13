"""Questions about many facts, and changes of many facts."""

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.utils import timezone

from config import live
from database import keyset
from memory.config import MEMORY, scope_key
from memory.errors import FactUnknown
from memory.models.fact_changes import TRACKED_FIELDS, FactChange
from memory.models.owners import Owner
from memory.models.passages import Passage

if TYPE_CHECKING:
    from memory.models.facts import Fact

UPDATED_FIELDS = (*TRACKED_FIELDS, "message_id", "updated_at")
FactCursor = tuple[datetime, uuid.UUID]
"""The cursor of a page: the `created_at` and id of a fact."""


class FactQuerySet(models.QuerySet["Fact"]):
    def get_known(self, user_id: uuid.UUID, fact_id: uuid.UUID) -> "Fact":
        """Return the user's fact of any status; raises `FactUnknown`."""
        fact = self.filter(user_id=user_id, id=fact_id).first()
        if fact is None:
            raise FactUnknown
        return fact

    def of_thread(self, user_id: uuid.UUID, name: str) -> "FactQuerySet":
        """Return the facts that are recalled in one thread only."""
        return self.filter(user_id=user_id, scope=scope_key("thread", "", name))

    def expired(self, now: datetime) -> "FactQuerySet":
        """Return facts that are older than facts are kept, and not pinned."""
        days = live.current().get(MEMORY).keep_days.facts
        if days is None:
            return self.none()
        before = now - timedelta(days=days)
        # Those created before are found by an index.
        old = self.filter(created_at__lt=before, updated_at__lt=before, is_pinned=False)
        return old.order_by("created_at", "id")

    def delete_rows(self, ids: Sequence[uuid.UUID]) -> None:
        """Delete facts, their history and what search has of them."""
        for user_id in set(self.filter(pk__in=ids).values_list("user_id", flat=True)):
            with Owner.objects.locked(user_id):
                # A fact may have been changed or pinned meanwhile.
                own = self.expired(timezone.now()).filter(user_id=user_id, pk__in=ids)
                Passage.objects.unindex(user_id, fact__in=own)
                own.only("pk").delete()

    def with_status(
        self, status: str | None, at: datetime | None = None
    ) -> "FactQuerySet":
        """Return facts with a status at a time, now by default; None means any.

        A fact expires exactly at `expires_at`, unless it is pinned.
        """
        at = at or timezone.now()
        is_due = Q(is_pinned=False, expires_at__lte=at)
        match status:
            case None:
                return self.all()
            case "active":
                return self.filter(status="active").exclude(is_due)
            case "expired":
                return self.filter(Q(status="expired") | Q(status="active") & is_due)
            case _:
                return self.filter(status=status)

    def valid_at(self, at: datetime) -> "FactQuerySet":
        has_begun = Q(valid_from__isnull=True) | Q(valid_from__lte=at)
        return self.filter(has_begun, Q(valid_to__isnull=True) | Q(valid_to__gt=at))

    def newest_first(self, after: FactCursor | None = None) -> "FactQuerySet":
        """Return the facts in this order; with a cursor those after it."""
        later = keyset.later_rows("created_at", after)
        return self.filter(later).order_by("-created_at", "-id")

    def write(self, user_id: uuid.UUID, facts: Iterable["Fact"]) -> None:
        """Write new facts of a user, and recorded changes, with their history.

        Call it under `Owner.objects.locked`. It sends the same few queries for any
        number of facts.
        """
        written = {fact.id: (fact, c) for fact in facts if (c := fact.unsaved)}
        created = [fact for fact, _ in written.values() if fact._state.adding]
        changed = [fact for fact, _ in written.values() if not fact._state.adding]
        self.bulk_update(changed, UPDATED_FIELDS)
        # After the updates: a new fact may take the key of a superseded one. Foreign
        # keys to it are checked at the end of the transaction.
        self.bulk_create(created)
        steps = [step for _, changes in written.values() for step in changes.steps]
        FactChange.objects.bulk_create(steps)
        texts, retired = [], []
        for fact, changes in written.values():
            if changes.was_searchable and not fact.is_searchable:
                retired.append(fact.id)
            elif fact.is_searchable and changes.text is not None:
                texts.append((fact.id, fact.content, *changes.text))
            fact.unsaved = None
        Passage.objects.index_facts(user_id, texts)
        Passage.objects.unindex(user_id, fact__in=retired)

    def expire_due(self, now: datetime, *, limit: int = 500) -> int:
        """Mark facts past their `expires_at` as expired, and return how many.

        They are hidden from that moment on; this removes them from the index and
        extends their history. At most `limit` at a time.
        """
        due = self.filter(status="active", is_pinned=False, expires_at__lte=now)
        by_user: dict[uuid.UUID, list[uuid.UUID]] = {}
        for user_id, fact_id in due.order_by("expires_at").values_list("user_id", "id")[
            :limit
        ]:
            by_user.setdefault(user_id, []).append(fact_id)
        expired = 0
        for user_id, fact_ids in by_user.items():
            with Owner.objects.locked(user_id):
                # Queried again: one may have been pinned or prolonged before the lock.
                facts = list(due.filter(user_id=user_id, id__in=fact_ids))
                for fact in facts:
                    fact.change({"status": "expired"}, "expired", by="expiry", at=now)
                self.write(user_id, facts)
            expired += len(facts)
        return expired
