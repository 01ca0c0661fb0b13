"""Selection of old parts of a conversation for summaries."""

from dataclasses import dataclass

from core import token_estimates
from core.text.sanitization import shorten_middle
from memory.extraction.prompts import DIALOGUE_ROLES, PromptMessage
from memory.models import StoredMessage, Thread
from memory.transcript.summaries.summary_prompts import MAX_MESSAGE_CHARS

MAX_TOKENS = 6_000
"""Tokens that the model receives per summary."""
MAX_ROWS = 400


@dataclass(frozen=True)
class SummarizableRange:
    """Whole exchanges of a thread that one summary covers."""

    first: int
    end: int
    """The messages are `first <= position < end`."""
    shown_messages: list[PromptMessage]
    """The messages that the model receives."""
    message_count: int
    tokens: int
    """Their tokens in prompts."""


def next_range(thread: Thread, first: int, end: int) -> SummarizableRange | None:
    """Return whole exchanges from `first` on, as many as one call can cover."""
    messages = StoredMessage.objects.of_thread(thread.pk).since(first).before(end)
    rows = messages.for_models().values_list(
        "id", "position", "role", "text", "created_at", "tokens"
    )
    selected: list[tuple[PromptMessage, int]] = []
    range_end, total = None, 0
    for number, position, role, text, at, cost in rows[:MAX_ROWS]:
        message = PromptMessage(number, position, role, text, at)
        if message.role == "user" and message.position > first:
            range_end = message.position
        total += _prompt_tokens(message)
        if total > MAX_TOKENS and range_end is not None:
            break
        selected.append((message, cost))
    else:
        range_end = selected[-1][0].position + 1 if selected else None
    if range_end is None:
        return None
    return _build_range(
        first, range_end, [pair for pair in selected if pair[0].position < range_end]
    )


def _build_range(
    first: int, end: int, selected: list[tuple[PromptMessage, int]]
) -> SummarizableRange:
    shown_messages, total = [], 0
    for message, _ in selected:
        total += _prompt_tokens(message)
        # Of a single exchange that is too long, only the beginning is used.
        if _prompt_tokens(message) and total <= MAX_TOKENS:
            shown_messages.append(message)
    return SummarizableRange(
        first, end, shown_messages, len(selected), sum(cost for _, cost in selected)
    )


def _prompt_tokens(message: PromptMessage) -> int:
    """Return the tokens of a message in the prompt; tool results are not included."""
    if message.role not in DIALOGUE_ROLES or not message.text.strip():
        return 0
    text = shorten_middle(message.text, MAX_MESSAGE_CHARS)
    return token_estimates.estimate_text(text) + token_estimates.MESSAGE_OVERHEAD
