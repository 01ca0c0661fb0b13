"""Cleaning of facts, whose types are validated where they enter."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from core.text.injection import injection_filter, rule_filter
from core.validation import storable_values
from memory.errors import FactInvalid
from memory.facts.types import MAX_RULE_KEY_LENGTH, MAX_RULE_LENGTH, FactDraft

MAX_RULES = 20
"""Active rules of a user: every prompt contains them."""
TOO_MANY_RULES = f"a user has at most {MAX_RULES} rules"
NO_WORD = re.compile(r"[\W_]+")
CONTROL_CHARACTERS = re.compile("[\x01-\x1f\x7f-\x9f]")


def clean_draft(draft: FactDraft) -> FactDraft:
    """Return the draft as it is stored, with its text on one line.

    Raises `FactInvalid`, which names the field.
    """
    check_interval(draft.valid_from, draft.valid_to, draft.expires_at)
    content = _clean_content(draft.content)
    check_length(draft.category, content)
    return replace(
        draft,
        content=content,
        key=clean_rule_key(draft.key) if draft.is_rule else clean_key(draft.key),
        agent=clean_text(draft.agent)[:255],
        quote=clean_text(draft.quote),
        review_reason=clean_text(draft.review_reason),
    )


def clean_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes of a fact as they are stored; raises `FactInvalid`."""
    cleaned = dict(changes)
    if "content" in cleaned:
        cleaned["content"] = _clean_content(cleaned["content"])
    if "key" in cleaned:
        cleaned["key"] = clean_key(cleaned["key"])
    return cleaned


def find_review_reason(category: str, content: str, quote: str = "") -> str:
    """Return why a person must review a fact before prompts contain it, or ""."""
    if category == "rule":
        return rule_filter.find_violation(content, quote)
    return injection_filter.find_injection(content, quote)


def clean_text(text: str) -> str:
    """Return a text on one line, without characters that databases cannot store."""
    readable = storable_values.UNSTORABLE.sub("\ufffd", text)
    return " ".join(CONTROL_CHARACTERS.sub(" ", readable).split())


def _clean_content(content: str) -> str:
    cleaned = clean_text(content)
    if not cleaned:
        raise FactInvalid("'content' must not be empty", param="content")
    return cleaned


def clean_key(key: str | None) -> str | None:
    """Return the key, or None for an empty one."""
    return clean_text(key or "") or None


def clean_rule_key(key: str | None) -> str | None:
    """Return the key of a rule: words in lower case, so that the same ones match."""
    words = NO_WORD.sub("_", clean_text(key or "").casefold())
    return words[:MAX_RULE_KEY_LENGTH].strip("_") or None


def check_length(category: str, content: str) -> None:
    """Raise `FactInvalid` if a rule is too long."""
    if category == "rule" and len(content) > MAX_RULE_LENGTH:
        raise FactInvalid(
            f"a rule has at most {MAX_RULE_LENGTH} characters: shorten 'content', "
            "or save several rules",
            param="content",
        )


def check_interval(
    valid_from: datetime | None, valid_to: datetime | None, expires_at: datetime | None
) -> None:
    """Raise `FactInvalid` if an end precedes its beginning."""
    for name, end in (("valid_to", valid_to), ("expires_at", expires_at)):
        if valid_from is not None and end is not None and end <= valid_from:
            raise FactInvalid(f"'{name}' must be after 'valid_from'", param=name)
