"""Say two things about somebody, one after the other, and see what is known then."""

import uuid
from collections.abc import Iterator, Sequence

from bench.memory_search.dataset import FactPair
from bench.memory_search.embeddings import DatasetVectors
from bench.memory_search.metrics import PairResult, Verdict
from core.ids import UserId
from memory.facts import fact_store
from memory.facts.types import FactDraft
from memory.recall import passages


def try_pairs(
    pairs: Sequence[FactPair], vectors: DatasetVectors
) -> Iterator[PairResult]:
    """Save each pair for a user of its own, and yield what became of it."""
    for pair in pairs:
        user_id = UserId(uuid.uuid4())
        first = _save(user_id, pair.old, vectors)
        second = _save(user_id, pair.new, vectors)
        known, _ = fact_store.page_facts(user_id)
        verdict: Verdict = "kept both"
        if len(known) == 1:
            verdict = "merged" if first == second else "superseded"
        yield PairResult(pair.id, pair.language, pair.label, vectors.embedder, verdict)


def _save(user_id: UserId, content: str, vectors: DatasetVectors) -> uuid.UUID:
    embedded = vectors.of(passages.strip_subject(content))
    [saved] = fact_store.save_drafts(
        user_id, [FactDraft(content)], [embedded], by="extraction"
    )
    return saved.fact_id
