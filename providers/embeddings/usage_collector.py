"""Collect the usage of embedding API calls for the request that causes them.

Embeddings are made far below the code that charges a request: in searches, in saves, in
agents' tools. A context variable carries the list, so no caller can forget to pass it.
Outside a request (background learning, the studio) nothing is collected.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from core import token_estimates
from providers.resilience.error_mapping import ProviderSource


@dataclass(frozen=True, slots=True)
class EmbeddingCall:
    """One billed request to an embedding API."""

    source: ProviderSource
    tokens: int
    """The API's count; estimated if it has none."""


_calls: ContextVar[list[EmbeddingCall] | None] = ContextVar(
    "embedding_calls", default=None
)


@contextmanager
def collect_calls() -> Iterator[list[EmbeddingCall]]:
    """Collect the calls made within the block, and in tasks that are begun there."""
    calls: list[EmbeddingCall] = []
    before = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(before)


def start_collecting() -> list[EmbeddingCall]:
    """Collect the calls made from here on in this context, and return their list.

    For generators, which may be closed in another context than they began in.
    """
    calls: list[EmbeddingCall] = []
    _calls.set(calls)
    return calls


def record_call(
    source: ProviderSource, texts: Sequence[str], reported: int | None
) -> None:
    """Record a billed call; `reported` is the API's own count of tokens, or None."""
    if (calls := _calls.get()) is not None:
        used = estimate_tokens(texts) if reported is None else reported
        calls.append(EmbeddingCall(source, used))


def estimate_tokens(texts: Sequence[str]) -> int:
    """Return about how many tokens an API counts in these texts."""
    return sum(map(token_estimates.estimate_text, texts))
