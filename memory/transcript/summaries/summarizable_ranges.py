"""Selection of old parts of a conversation for summaries."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import F

from core import token_estimates
from core.ids import UserId
from memory.extraction.prompts import DIALOGUE_ROLES, PromptMessage, truncate_middle
from memory.models import StoredMessage, Thread
from memory.transcript.summaries.summary_prompts import MAX_MESSAGE_CHARS

RECENT_MESSAGES = 10
"""The newest messages of a thread, which are never summarized."""
MIN_MESSAGES = 20
"""The fewest old messages that justify a summary."""
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


def candidate_thread_ids(user_id: UserId | None = None) -> list[int]:
    """Return the ids of threads long enough for a summary."""
    threads = Thread.objects.filter(
        length__gte=F("summarized_until") + RECENT_MESSAGES + MIN_MESSAGES
    )
    if user_id is not None:
        threads = threads.filter(user_id=user_id)
    return list(threads.values_list("pk", flat=True))


def summarizable_end(thread: Thread, cutoff: datetime) -> int | None:
    """Return the position up to which a thread can be summarized, or None.

    Messages after `cutoff` and the newest messages are excluded. A user's message is at
    the returned position.
    """
    messages = StoredMessage.objects.filter(
        thread=thread, position__gte=thread.summarized_until
    )
    recent = messages.filter(created_at__gt=cutoff).order_by("position").first()
    end = thread.length - RECENT_MESSAGES
    if recent is not None:
        end = min(end, recent.position)
    if end - thread.summarized_until < MIN_MESSAGES:
        return None
    next_question = messages.filter(
        position__gt=thread.summarized_until, position__lte=end, role="user"
    ).order_by("-position")
    return next_question.values_list("position", flat=True).first()


def next_range(thread: Thread, first: int, end: int) -> SummarizableRange | None:
    """Return whole exchanges from `first` on, as many as one call can cover."""
    rows = (
        StoredMessage.objects.filter(
            thread=thread, position__gte=first, position__lt=end
        )
        .order_by("position")
        .values_list("id", "position", "role", "text", "created_at", "tokens")
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
    text = truncate_middle(message.text, MAX_MESSAGE_CHARS)
    return token_estimates.estimate_text(text) + token_estimates.MESSAGE_OVERHEAD
