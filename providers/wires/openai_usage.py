"""Token usage in the replies of OpenAI's API and its compatible variants."""

from collections.abc import Mapping
from typing import Any

from core.events import Usage
from providers.wires import usage_parsing
from providers.wires.usage_parsing import parse_count


def find_usage(payload: Mapping[str, Any]) -> Usage | None:
    """Return the usage of a reply or a chunk, None without one.

    Groq's streams have it under `x_groq`.
    """
    groq = _mapping_or_empty(payload.get("x_groq"))
    return parse_usage(payload.get("usage") or groq.get("usage"))


def parse_usage(raw: Any) -> Usage | None:
    """Return the usage in our terms, None without valid counts.

    `prompt_tokens` includes what was cached. Gemini and xAI leave the thinking out
    of `completion_tokens` and count it in `total_tokens`, where it is billed.
    """
    counts = _mapping_or_empty(raw)
    prompt = parse_count(counts.get("prompt_tokens"))
    completion = parse_count(counts.get("completion_tokens"))
    hidden = 0
    if prompt is not None:
        total = parse_count(counts.get("total_tokens")) or 0
        hidden = max(0, total - prompt - (completion or 0))
    read, written = _cached_tokens(counts)
    details = _mapping_or_empty(counts.get("completion_tokens_details"))
    return usage_parsing.build_usage(
        prompt,
        completion + hidden if completion is not None else hidden or None,
        cache_read=read,
        cache_write=written,
        reasoning=max(hidden, parse_count(details.get("reasoning_tokens")) or 0),
    )


def _cached_tokens(counts: Mapping[str, Any]) -> tuple[int, int]:
    """Return how much of a prompt was read from a cache, and written to one.

    DeepSeek and Moonshot name the tokens read in their own ways.
    """
    details = _mapping_or_empty(counts.get("prompt_tokens_details"))
    candidates = (
        details.get("cached_tokens"),
        counts.get("prompt_cache_hit_tokens"),
        counts.get("cached_tokens"),
    )
    read = next((n for n in map(parse_count, candidates) if n is not None), 0)
    return read, parse_count(details.get("cache_write_tokens")) or 0


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
