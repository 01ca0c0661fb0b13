"""The model of the search index."""

import uuid
from collections.abc import Iterable, Sequence
from functools import partial, reduce
from operator import or_
from typing import Any

from django.db import connection, models, transaction
from django.db.models import Q

from core.ids import UserId
from memory.config import USER_SCOPE
from memory.models.fields import TermsField, VectorField
from memory.models.messages import StoredMessage
from memory.models.owners import Owner
from memory.models.threads import Thread
from memory.recall.index import term_encoding, tokenizer
from memory.recall.types import Embedded

FactText = tuple[uuid.UUID, str, Embedded | None, str]
"""The fact's id, content and vector, and the reason if it has none."""
MessageText = tuple[int, int, str, Embedded | None, str]
"""The message's id, position, text and vector, and the reason if it has none."""

BATCH_SIZE = 500
"""Rows per statement."""
MAX_ERROR_LENGTH = 1000
MAX_SEARCH_CHARS = 20_000
"""Indexed characters of a message; PostgreSQL limits the words of a row to 1 MB."""
MAX_THREADS_PER_QUERY = 100

# The ORM cannot update from a join; it would need a statement per message.
REFRESH_WINDOWS_SQL = """
    UPDATE memory_passage p SET window_terms = p.terms
        || coalesce((SELECT terms FROM memory_passage WHERE message_id = o.before), '')
        || coalesce((SELECT terms FROM memory_passage WHERE message_id = o.after), '')
    FROM (
        SELECT m.id,
            (SELECT id FROM memory_message
             WHERE thread_id = m.thread_id AND position = m.position - 1) AS before,
            (SELECT id FROM memory_message
             WHERE thread_id = m.thread_id AND position = m.position + 1) AS after
        FROM memory_message m WHERE m.thread_id = %s AND m.position = ANY(%s)
    ) o
    WHERE p.message_id = o.id AND p.user_id = %s
"""
LOCK_THREAD_SQL = "SELECT pg_advisory_xact_lock(hashtext('memory_passage'), %s)"


class PassageQuerySet(models.QuerySet["Passage"]):
    """Passages of facts and messages.

    A removal or a new vector increments the owner's version, so that processes notice
    it.
    """

    def index_facts(self, user_id: uuid.UUID, texts: Sequence[FactText]) -> None:
        """Make facts searchable by their current content, replacing earlier passages.

        Call it in the transaction that changes the facts.
        """
        self.unindex(user_id, fact__in=[fact_id for fact_id, *_ in texts])
        passages = []
        for fact_id, content, embedded, error in texts:
            passage = Passage(user_id=user_id, fact_id=fact_id)
            passage.set_text(tokenizer.strip_subject(content))
            passage.set_vector(embedded, error)
            passages.append(passage)
        self.bulk_create(passages, BATCH_SIZE)

    def index_messages(
        self,
        user_id: uuid.UUID,
        thread_id: int,
        messages: Sequence[MessageText],
        *,
        scope: str = USER_SCOPE,
    ) -> None:
        """Make messages of one thread searchable, alone and with their neighbours.

        Existing passages of the messages are replaced.
        """
        passages = []
        for message_id, position, text, embedded, error in messages:
            passage = Passage(
                user_id=user_id,
                message_id=message_id,
                thread_id=thread_id,
                position=position,
                is_question=tokenizer.is_question(text),
                scope=scope,
            )
            passage.set_text(text)
            passage.set_vector(embedded, error)
            passages.append(passage)
        with transaction.atomic():
            if connection.vendor == "postgresql":
                # Windows overlap, so one transaction at a time changes a thread's.
                _execute(LOCK_THREAD_SQL, [thread_id % 2**31])
            self.unindex(user_id, message__in=[number for number, *_ in messages])
            self.bulk_create(passages, BATCH_SIZE)
            _refresh_windows(user_id, thread_id, [m[1] for m in messages])

    def convert_rows(self, rows: Sequence[Any], vendor: str) -> None:
        """Rewrite the words of rows of this database for one of another kind.

        Called when all rows are moved to another database (`database.transfer`).
        """
        contents = self._fact_terms([row.fact_id for row in rows if row.fact_id])
        places = {(row.thread_id, row.position) for row in rows if row.message_id}
        spread = {(t, p + step) for t, p in places for step in (-1, 0, 1)}
        messages = self._message_terms(spread)
        write = partial(term_encoding.write_terms, vendor=vendor)
        for row in rows:
            row.window_terms = None
            if row.fact_id:
                row.terms = write(row.user_id, contents[row.fact_id])
                continue
            before, own, after = (
                messages.get((row.thread_id, row.position + step), [])
                for step in (-1, 0, 1)
            )
            row.terms = write(row.user_id, own)
            if vendor == "postgresql":
                row.window_terms = write(row.user_id, own + before + after)

    def _fact_terms(self, ids: list[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
        facts = self.filter(fact__in=ids).values_list("fact_id", "fact__content")
        return {
            fact_id: tokenizer.tokenize(tokenizer.strip_subject(content))
            for fact_id, content in facts
        }

    def _message_terms(
        self, places: Iterable[tuple[int, int]]
    ) -> dict[tuple[int, int], list[str]]:
        """Return the terms of indexed messages by thread and position."""
        positions: dict[int, list[int]] = {}
        for thread_id, position in sorted(places):
            positions.setdefault(thread_id, []).append(position)
        threads = list(positions)
        indexed = StoredMessage.objects.using(self.db).filter(passage__isnull=False)
        terms = {}
        for start in range(0, len(threads), MAX_THREADS_PER_QUERY):
            part = threads[start : start + MAX_THREADS_PER_QUERY]
            conditions = [Q(thread=t, position__in=positions[t]) for t in part]
            texts = indexed.filter(reduce(or_, conditions))
            for thread_id, position, text in texts.values_list(
                "thread_id", "position", "text"
            ):
                terms[thread_id, position] = tokenizer.tokenize(text[:MAX_SEARCH_CHARS])
        return terms

    def unindex(self, user_id: uuid.UUID, **condition: Any) -> None:
        """Make a user's texts unsearchable, in the transaction that retires them."""
        if self.filter(user_id=user_id, **condition).delete()[0]:
            Owner.objects.ensure_bumped(user_id)

    def unindex_messages(
        self, user_id: uuid.UUID, thread_id: int, messages: dict[int, int]
    ) -> None:
        """Make messages of a thread unsearchable, by themselves and by neighbours.

        `messages` are their positions, by id.
        """
        with transaction.atomic():
            if connection.vendor == "postgresql":
                _execute(LOCK_THREAD_SQL, [thread_id % 2**31])
            self.unindex(user_id, message__in=list(messages))
            _refresh_windows(user_id, thread_id, messages.values())

    def pending(self, embedder_id: str) -> "PassageQuerySet":
        """Return passages without a vector of this embedder, oldest first."""
        return self.exclude(embedder=embedder_id).order_by("id")

    def with_text(self) -> "PassageQuerySet":
        """Load what `Passage.text` needs, and not the encoded forms."""
        related = self.select_related("fact", "message")
        return related.only("user_id", "fact__content", "message__text")

    def set_vectors(
        self, results: Sequence[tuple["Passage", Embedded | None, str]]
    ) -> None:
        """Store vectors of passages, or the reasons for missing ones; all or none.

        Each is stored as a new passage with a higher id, because processes cache the
        old one. Passages deleted meanwhile are skipped.
        """
        vectors = {(p.pk, p.user_id): (vector, e) for p, vector, e in results}
        with transaction.atomic():
            # Always in this order, the owner's row first, so that two transactions
            # cannot deadlock. It waits for a running erasure.
            for user_id in sorted({user_id for _, user_id in vectors}):
                is_known = Owner.objects.bump_version(user_id)
                if not is_known and self.filter(user_id=user_id).exists():
                    Owner.objects.ensure_bumped(user_id)
            found = self.select_for_update().filter(pk__in=[pk for pk, _ in vectors])
            passages = [p for p in found.order_by("pk") if (p.pk, p.user_id) in vectors]
            self.filter(pk__in=[passage.pk for passage in passages]).delete()
            for passage in passages:
                passage.set_vector(*vectors[passage.pk, passage.user_id])
                passage.pk = None
            self.bulk_create(passages, BATCH_SIZE)


def _refresh_windows(
    user_id: uuid.UUID, thread_id: int, positions: Iterable[int]
) -> None:
    """Update the stored windows at these positions and beside them."""
    if connection.vendor == "postgresql":
        spread = {position + step for position in positions for step in (-1, 0, 1)}
        _execute(REFRESH_WINDOWS_SQL, [thread_id, sorted(spread), user_id])


def _execute(statement: str, values: list[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


class Passage(models.Model):
    """A searchable text: a fact or a message.

    Rows are never updated, except their windows: a changed text gets a new row with a
    higher id, so cached rows stay valid (`memory.recall.index.corpus_cache`).
    """

    user_id = models.UUIDField()
    fact = models.OneToOneField("memory.Fact", null=True, on_delete=models.CASCADE)
    message = models.OneToOneField(StoredMessage, null=True, on_delete=models.CASCADE)
    thread = models.ForeignKey(
        Thread,
        null=True,
        on_delete=models.CASCADE,
        db_index=False,
        # The message's own foreign key ensures it. Checking this one without an index
        # would read all passages of all users for each erased thread.
        db_constraint=False,
    )
    position = models.BigIntegerField(null=True)
    """The message's position in its thread; its window consists of its neighbours."""
    is_question = models.BooleanField(default=False)
    scope = models.CharField(max_length=600, blank=True, default="", db_default="")
    """Where a message is recalled; a fact has its own."""
    terms = TermsField()
    window_terms = TermsField(null=True)
    """The terms of a message and its neighbours; on PostgreSQL only."""
    embedder = models.CharField(max_length=128, blank=True, default="")
    """The embedder of the vector; "" if there is none yet."""
    dimensions = models.IntegerField(default=0)
    vector = VectorField(null=True)
    embedding_error = models.TextField(blank=True, default="")

    objects = PassageQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(fact__isnull=False, message__isnull=True)
                | Q(fact__isnull=True, message__isnull=False),
                name="memory_passage_of_one",
            )
        ]
        indexes = [
            models.Index(fields=["user_id", "id"], name="memory_passage_of_user"),
            models.Index(fields=["embedder", "id"], name="memory_passage_embedder"),
        ]

    def __str__(self) -> str:
        return f"passage {self.pk}"

    @property
    def text(self) -> str:
        """What to embed."""
        if self.message is not None:
            return self.message.text
        return tokenizer.strip_subject(self.fact.content if self.fact else "")

    def set_text(self, text: str) -> None:
        """Set the words by which it is found."""
        terms = tokenizer.tokenize(text)
        self.terms = term_encoding.write_terms(
            UserId(self.user_id), terms, connection.vendor
        )

    def set_vector(self, embedded: Embedded | None, error: str) -> None:
        """Set the vector, or the reason why there is none."""
        if embedded is None:
            self.embedder, self.dimensions, self.vector = "", 0, None
            self.embedding_error = error[:MAX_ERROR_LENGTH]
        else:
            self.embedder, self.vector = embedded.embedder, embedded.vector
            self.dimensions, self.embedding_error = len(embedded.vector), ""
