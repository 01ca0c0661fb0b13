"""Parser of the model's reply to the extraction prompt.

The reply contains proposals: each fact must be backed by a quote of the user's own
words. Facts that fail are dropped and counted; the others are kept.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, TypeGuard
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ValidationError

from core.text import lenient_json
from core.text.injection import injection_filter
from core.text.sanitization import shorten_middle
from memory.errors import FactInvalid
from memory.extraction import date_parsing, quote_check
from memory.extraction.prompts import (
    CATEGORIES,
    MAX_TURN_CHARS,
    ExtractionInput,
    PromptMessage,
)
from memory.facts import fact_validation
from memory.facts.types import MAX_CONTENT_LENGTH, Category, FactDraft

DEFAULT_IMPORTANCE = 5
MAX_QUOTE_LENGTH = 500


class FactListUnreadable(ValueError):
    """The reply is not a list of facts; the message tells the model why."""


class FactRejected(ValueError):
    """A proposed fact is not credible; the message says why."""


@dataclass
class ParsedFacts:
    drafts: list[FactDraft]
    total: int
    """How many facts the model proposed."""
    dropped: Counter[str] = field(default_factory=Counter)
    """The number of dropped facts, by reason."""


def _parse_number(value: Any) -> int | None:
    """Return the integer that a model means by 7, 7.0, "7", "7/10" or "#7"."""
    if isinstance(value, str):
        value = value.strip().lstrip("#").partition("/")[0]
    if isinstance(value, bool):
        return None
    try:
        return round(float(value))
    except (TypeError, ValueError, OverflowError):
        return None


def _parse_importance(value: Any) -> int:
    number = _parse_number(value)
    return DEFAULT_IMPORTANCE if number is None else min(max(number, 1), 10)


def _parse_category(value: Any) -> str:
    name = value.strip().casefold() if isinstance(value, str) else ""
    return name if name in CATEGORIES else "general"


class ProposedFact(BaseModel):
    """A fact as a model writes it, validated leniently."""

    content: str
    category: Annotated[Category, BeforeValidator(_parse_category)] = "general"
    importance: Annotated[int, BeforeValidator(_parse_importance)] = DEFAULT_IMPORTANCE
    key: Any = None
    quote: str
    valid_from: Any = None
    expires_at: Any = None
    supersedes: Annotated[int | None, BeforeValidator(_parse_number)] = None


def find_fact_list(reply: str) -> list[Any]:
    """Return the unvalidated facts of a reply.

    Reads a bare array, or an object with `facts`, fenced or surrounded by prose. Raises
    `FactListUnreadable` if there is no list.
    """
    text = _strip_thinking(reply).strip()
    has_json = False
    for candidate, value in lenient_json.parse_candidates(text):
        has_json = True
        entries = value.get("facts") if isinstance(value, dict) else value
        if _is_list_of_facts(entries):
            return entries
        if candidate == text:
            break  # The whole reply is other JSON: a list inside it is not the answer.
    if has_json:
        raise FactListUnreadable('it is not {"facts": […]} with a list of objects')
    raise FactListUnreadable(lenient_json.describe_problem(text))


def _is_list_of_facts(value: Any) -> TypeGuard[list[Any]]:
    if not isinstance(value, list):
        return False
    return not value or any(isinstance(entry, dict) for entry in value)


def _strip_thinking(reply: str) -> str:
    """Return a reply without the reasoning that some models put before it."""
    return reply.rpartition("</think>")[2]


def parse_reply(
    reply: str, extraction_input: ExtractionInput, *, now: datetime
) -> ParsedFacts:
    """Return the credible facts of a reply, most important first.

    Returns at most `extraction_input.max_facts`. Facts that look like instructions are
    kept with a reason to review them. Raises `FactListUnreadable` if there is no list.
    """
    entries = find_fact_list(reply)
    validator = _FactValidator(extraction_input, now)
    parsed = ParsedFacts([], len(entries))
    for entry in entries:
        try:
            parsed.drafts.append(validator.build_draft(entry))
        except FactRejected as exc:
            parsed.dropped[str(exc)] += 1
    parsed.drafts.sort(key=lambda draft: -draft.importance)
    if len(parsed.drafts) > extraction_input.max_facts:
        parsed.dropped["over the limit"] = (
            len(parsed.drafts) - extraction_input.max_facts
        )
        del parsed.drafts[extraction_input.max_facts :]
    return parsed


class _FactValidator:
    """Validates the facts of one reply in order."""

    def __init__(self, extraction_input: ExtractionInput, now: datetime) -> None:
        self._input = extraction_input
        self._now = now
        # The text that the model received: it can quote nothing else.
        self._sources = [
            (
                message,
                quote_check.normalize(shorten_middle(message.text, MAX_TURN_CHARS)),
            )
            for message in extraction_input.user_messages
        ]
        self._seen: set[str] = set()

    def build_draft(self, entry: Any) -> FactDraft:
        """Return the draft of a proposed fact; raises `FactRejected`."""
        try:
            proposed = ProposedFact.model_validate(entry)
        except ValidationError as exc:
            raise FactRejected("malformed") from exc
        content = self._check_content(proposed)
        source = self._find_quoted_message(proposed.quote)
        quote = proposed.quote.strip()[:MAX_QUOTE_LENGTH]
        is_rule = proposed.category == "rule"
        review_reason = fact_validation.find_review_reason(
            proposed.category, proposed.content, quote
        )
        if not (is_rule or review_reason) and injection_filter.is_about_assistant(
            content
        ):
            raise FactRejected("about the assistant")
        valid_from, expires_at = self._parse_interval(proposed)
        draft = FactDraft(
            content=content,
            category=proposed.category,
            # It must not raise the importance of the message.
            importance=DEFAULT_IMPORTANCE if is_rule else proposed.importance,
            key=proposed.key if is_rule and isinstance(proposed.key, str) else None,
            agent=self._input.agent,
            scope=self._input.scope,
            quote=quote,
            message_id=source.id,
            said_at=source.at,
            valid_from=valid_from,
            expires_at=expires_at,
            supersedes=self._superseded_id(proposed.supersedes),
            review_reason=review_reason,
        )
        try:
            return fact_validation.clean_draft(draft)
        except FactInvalid as exc:
            raise FactRejected("malformed") from exc

    def _check_content(self, proposed: ProposedFact) -> str:
        content = " ".join(proposed.content.split())
        if not content:
            raise FactRejected("empty")
        if len(content) > MAX_CONTENT_LENGTH:
            raise FactRejected("too long")
        if content.casefold() in self._seen:
            raise FactRejected("duplicate")
        self._seen.add(content.casefold())
        return content

    def _find_quoted_message(self, quote: str) -> PromptMessage:
        words = quote_check.normalize(quote)
        for message, text in self._sources:
            if quote_check.is_quoted_from(words, text):
                return message
        raise FactRejected("quote not found")

    def _parse_interval(
        self, proposed: ProposedFact
    ) -> tuple[datetime | None, datetime | None]:
        zone = self._input.zone
        valid_from = date_parsing.parse_instant(proposed.valid_from, zone)
        expires_at = date_parsing.parse_instant(proposed.expires_at, zone, at_end=True)
        if expires_at is not None and expires_at <= self._now:
            raise FactRejected("expired")
        if valid_from and expires_at and expires_at <= valid_from:
            # One of the two is wrong, and it is unknown which.
            return None, None
        return valid_from, expires_at

    def _superseded_id(self, number: int | None) -> UUID | None:
        facts = self._input.similar_facts
        if number is None or not 1 <= number <= len(facts):
            return None
        return facts[number - 1].id
