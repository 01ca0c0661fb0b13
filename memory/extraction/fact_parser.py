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
from memory.errors import FactInvalid
from memory.extraction import date_parsing, quote_check
from memory.extraction.injection import injection_filter
from memory.extraction.prompts import (
    CATEGORIES,
    MAX_TURN_CHARS,
    ExtractionInput,
    PromptMessage,
    truncate_middle,
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
    """The facts parsed from a reply."""

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
    quote: str
    valid_from: Any = None
    expires_at: Any = None
    supersedes: Annotated[int | None, BeforeValidator(_parse_number)] = None


def find_fact_list(reply: str) -> list[Any]:
    """Return the unvalidated facts of a reply.

    Reads a bare array, or an object with `facts`, fenced or surrounded by prose. Raises
    `FactListUnreadable` if there is no list.
    """
    said = _strip_thinking(reply).strip()
    has_json = False
    for text, value in lenient_json.parse_candidates(said):
        has_json = True
        listed = value.get("facts") if isinstance(value, dict) else value
        if _is_list_of_facts(listed):
            return listed
        if text == said:
            break  # The whole reply is other JSON: a list inside it is not the answer.
    if has_json:
        raise FactListUnreadable('it is not {"facts": […]} with a list of objects')
    raise FactListUnreadable(lenient_json.describe_problem(said))


def _is_list_of_facts(value: Any) -> TypeGuard[list[Any]]:
    if not isinstance(value, list):
        return False
    return not value or any(isinstance(entry, dict) for entry in value)


def _strip_thinking(reply: str) -> str:
    """Return a reply without the reasoning that some models put before it."""
    return reply.rpartition("</think>")[2]


def parse_reply(reply: str, material: ExtractionInput, *, now: datetime) -> ParsedFacts:
    """Return the credible facts of a reply, most important first.

    Returns at most `material.max_facts`. Facts that look like instructions are kept
    with a reason to review them. Raises `FactListUnreadable` if there is no list.
    """
    listed = find_fact_list(reply)
    judge = _FactValidator(material, now)
    found = ParsedFacts([], len(listed))
    for entry in listed:
        try:
            found.drafts.append(judge.build_draft(entry))
        except FactRejected as exc:
            found.dropped[str(exc)] += 1
    found.drafts.sort(key=lambda draft: -draft.importance)
    if len(found.drafts) > material.max_facts:
        found.dropped["over the limit"] = len(found.drafts) - material.max_facts
        del found.drafts[material.max_facts :]
    return found


class _FactValidator:
    """Validates the facts of one reply in order."""

    def __init__(self, material: ExtractionInput, now: datetime) -> None:
        self._material = material
        self._now = now
        # The text that the model has seen: it can quote nothing else.
        self._sources = [
            (said, quote_check.normalize(truncate_middle(said.text, MAX_TURN_CHARS)))
            for said in material.user_messages
        ]
        self._seen: set[str] = set()

    def build_draft(self, entry: Any) -> FactDraft:
        """Return the draft of a proposed fact; raises `FactRejected`."""
        try:
            item = ProposedFact.model_validate(entry)
        except ValidationError as exc:
            raise FactRejected("malformed") from exc
        content = self._check_content(item)
        source = self._find_quoted_message(item.quote)
        quote = item.quote.strip()[:MAX_QUOTE_LENGTH]
        review_reason = injection_filter.find_injection(item.content, quote)
        if not review_reason and injection_filter.is_about_assistant(content):
            raise FactRejected("about the assistant")
        valid_from, expires_at = self._parse_interval(item)
        draft = FactDraft(
            content=content,
            category=item.category,
            importance=item.importance,
            agent=self._material.agent,
            quote=quote,
            message_id=source.id,
            said_at=source.at,
            valid_from=valid_from,
            expires_at=expires_at,
            supersedes=self._superseded_id(item.supersedes),
            review_reason=review_reason,
        )
        try:
            return fact_validation.clean_draft(draft)
        except FactInvalid as exc:
            raise FactRejected("malformed") from exc

    def _check_content(self, item: ProposedFact) -> str:
        content = " ".join(item.content.split())
        if not content:
            raise FactRejected("empty")
        if len(content) > MAX_CONTENT_LENGTH:
            raise FactRejected("too long")
        if content.casefold() in self._seen:
            raise FactRejected("duplicate")
        self._seen.add(content.casefold())
        return content

    def _find_quoted_message(self, quote: str) -> PromptMessage:
        """Return the user's message that contains a quote."""
        words = quote_check.normalize(quote)
        for said, text in self._sources:
            if quote_check.is_quoted_from(words, text):
                return said
        raise FactRejected("quote not found")

    def _parse_interval(
        self, item: ProposedFact
    ) -> tuple[datetime | None, datetime | None]:
        zone = self._material.zone
        valid_from = date_parsing.parse_instant(item.valid_from, zone)
        expires_at = date_parsing.parse_instant(item.expires_at, zone, at_end=True)
        if expires_at is not None and expires_at <= self._now:
            raise FactRejected("expired")
        if valid_from and expires_at and expires_at <= valid_from:
            # One of the two is wrong, and it is unknown which.
            return None, None
        return valid_from, expires_at

    def _superseded_id(self, number: int | None) -> UUID | None:
        known = self._material.known_facts
        if number is None or not 1 <= number <= len(known):
            return None
        return known[number - 1].id
