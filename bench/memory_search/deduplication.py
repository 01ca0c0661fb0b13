"""Measures deduplication: saves two facts about a user, and checks which remain."""

import uuid
from collections.abc import Iterator, Sequence

from bench.memory_search.dataset import FactPair
from bench.memory_search.embeddings import DatasetVectors
from bench.memory_search.metrics import PairResult, Verdict
from core.ids import UserId
from memory.facts import fact_store
from memory.facts.types import FactDraft
from memory.recall.index import tokenizer


def save_pairs(
    pairs: Sequence[FactPair], vectors: DatasetVectors
) -> Iterator[PairResult]:
    """Save each pair for a new user, and yield the result."""
    for pair in pairs:
        user_id = UserId(uuid.uuid4())
        first = _save(user_id, pair.old, vectors)
        second = _save(user_id, pair.new, vectors)
        facts, _ = fact_store.page_facts(user_id)
        verdict: Verdict = "kept both"
        if len(facts) == 1:
            verdict = "merged" if first == second else "superseded"
        yield PairResult(pair.id, pair.language, pair.label, vectors.embedder, verdict)


def _save(user_id: UserId, content: str, vectors: DatasetVectors) -> uuid.UUID:
    embedded = vectors.of(tokenizer.strip_subject(content))
    [saved] = fact_store.save_drafts(
        user_id, [FactDraft(content)], [embedded], by="extraction"
    )
    return saved.fact_id
