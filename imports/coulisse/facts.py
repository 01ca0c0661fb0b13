"""Memories of users, as facts."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

import numpy as np

from core.ids import UserId
from imports.coulisse import users
from imports.coulisse.source_database import (
    Row,
    RowDamaged,
    SourceDatabase,
    Table,
    read_text,
    read_time,
    read_uuid,
)
from memory.facts import fact_validation
from memory.facts.types import MAX_CONTENT_LENGTH, FactDraft
from memory.models import Fact, Owner
from memory.models.fact_choices import FactCategory, FactSource, FactStatus, HeldFor
from memory.recall.query_embedding import NO_VECTOR
from memory.recall.types import Embedded, EmbeddingResult

MEMORIES = Table(
    "memories",
    "memories",
    (
        "id",
        "user_id",
        "kind",
        "content",
        "created_at",
        "embedding",
        "embedding_dims",
        "embedding_model",
    ),
)
CATEGORIES = {"fact": FactCategory.FACT, "preference": FactCategory.PREFERENCE}
BY = "import"

NewFact = tuple[Fact, EmbeddingResult]


def import_facts(source: SourceDatabase, embedder_id: str) -> None:
    """Import facts; one that looks like an instruction is held for review.

    Vectors of our embedder are kept. A periodic job computes the others.
    """
    source.import_rows(
        MEMORIES,
        lambda row: (_read_fact(row), _read_vector(row, embedder_id)),
        lambda facts: _write(source, facts),
    )


def _read_fact(row: Row) -> Fact:
    kind, created_at = read_text(row, "kind"), read_time(row, "created_at")
    if kind not in CATEGORIES:
        raise RowDamaged(f"the kind '{kind:.40}' is neither fact nor preference")
    draft = fact_validation.clean_draft(FactDraft(read_text(row, "content")))
    if len(draft.content) > MAX_CONTENT_LENGTH:
        raise RowDamaged(f"it is longer than {MAX_CONTENT_LENGTH:,} characters")
    return Fact(
        id=read_uuid(row, "id"),
        user_id=users.read_user(row),
        content=draft.content,
        category=CATEGORIES[kind],
        source=FactSource.EXTRACTION,
        said_at=created_at,
        created_at=created_at,
        updated_at=created_at,
    )


def _read_vector(row: Row, embedder_id: str) -> EmbeddingResult:
    """Return the vector if it is of our embedder; our ids also have its dimensions."""
    if f"{row['embedding_model']}:{row['embedding_dims']}" != embedder_id:
        return None, NO_VECTOR
    data = row["embedding"]
    if not isinstance(data, bytes) or len(data) != 4 * row["embedding_dims"]:
        return None, NO_VECTOR
    vector = np.frombuffer(data, "<f4").astype(np.float32)
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or length == 0:
        return None, NO_VECTOR
    return Embedded(embedder_id, vector / length), ""


def _write(source: SourceDatabase, facts: Sequence[NewFact]) -> None:
    # In this order, so that two transactions cannot deadlock.
    ordered = sorted(facts, key=lambda each: each[0].user_id)
    for user_id, of_user in groupby(ordered, key=lambda each: each[0].user_id):
        _write_of_user(source, UserId(user_id), list(of_user))


def _write_of_user(
    source: SourceDatabase, user_id: UserId, facts: Sequence[NewFact]
) -> None:
    with Owner.objects.locked(user_id) as now:
        ids = [fact.pk for fact, _ in facts]
        known = set(Fact.objects.filter(pk__in=ids).values_list("pk", flat=True))
        new = [(fact, text) for fact, text in facts if fact.pk not in known]
        for fact, text in new:
            _record(fact, text, now)
        Fact.objects.write(user_id, [fact for fact, _ in new])
        source.report.count(
            MEMORIES.kind, written=len(new), existing=len(facts) - len(new)
        )


def _record(fact: Fact, text: EmbeddingResult, now: datetime) -> None:
    reason = fact_validation.find_review_reason(fact.category, fact.content)
    if reason:
        fact.status, fact.held_for = FactStatus.PENDING_REVIEW, HeldFor.INJECTION
        fact.updated_at = now
    reason = reason or "moved from the Rust version"
    fact.record_creation("created", by=BY, reason=reason[:500], text=text)
