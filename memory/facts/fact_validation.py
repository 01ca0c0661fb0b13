"""Validation of facts: texts are cleaned, invalid values are refused."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, get_args

from core.validation import storable_values
from memory.errors import FactInvalid
from memory.facts.types import MAX_CONTENT_LENGTH, Category, FactDraft

MAX_KEY_LENGTH = 255

CONTROL_CHARACTERS = re.compile("[\x01-\x1f\x7f-\x9f]")
DATE_FIELDS = ("valid_from", "valid_to", "expires_at")


def clean_draft(draft: FactDraft) -> FactDraft:
    """Return the draft as it is stored, with its text on one line.

    Raises `FactInvalid`, which names the field.
    """
    cleaned = replace(
        draft,
        content=_clean_content(draft.content),
        category=_clean_category(draft.category),
        importance=_clean_importance(draft.importance),
        key=clean_key(draft.key),
        agent=clean_text(draft.agent)[:255],
        quote=clean_text(draft.quote),
        review_reason=clean_text(draft.review_reason),
    )
    for name in ("said_at", *DATE_FIELDS):
        _clean_date(name, getattr(draft, name))
    check_interval(draft.valid_from, draft.valid_to, draft.expires_at)
    return cleaned


def clean_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return validated changes of a fact.

    Raises `FactInvalid` for a field that cannot be changed, or an invalid value.
    """
    unknown = sorted(set(changes) - set(CLEANERS))
    if unknown:
        raise FactInvalid(f"'{unknown[0]}' cannot be changed", param=unknown[0])
    return {name: CLEANERS[name](value) for name, value in changes.items()}


def clean_text(text: str) -> str:
    """Return a text on one line, without characters that databases cannot store."""
    readable = storable_values.UNSTORABLE.sub("\ufffd", text)
    return " ".join(CONTROL_CHARACTERS.sub(" ", readable).split())


def _clean_content(content: object) -> str:
    if not isinstance(content, str):
        raise FactInvalid("'content' must be text", param="content")
    cleaned = clean_text(content)
    if not cleaned:
        raise FactInvalid("'content' must not be empty", param="content")
    if len(cleaned) > MAX_CONTENT_LENGTH:
        raise FactInvalid(
            f"'content' has {len(cleaned)} characters; the maximum is "
            f"{MAX_CONTENT_LENGTH}",
            param="content",
        )
    return cleaned


def _clean_category(category: object) -> Category:
    for allowed in get_args(Category):
        if category == allowed:
            return allowed  # type: ignore[no-any-return]
    names = ", ".join(get_args(Category))
    raise FactInvalid(
        f"'category' must be one of {names}, got {category!r:.60}", param="category"
    )


def _clean_importance(importance: object) -> int:
    is_whole = isinstance(importance, int) and not isinstance(importance, bool)
    if is_whole and 1 <= importance <= 10:  # type: ignore[operator]
        return importance  # type: ignore[return-value]
    raise FactInvalid(
        f"'importance' must be a whole number from 1 to 10, got {importance!r:.60}",
        param="importance",
    )


def clean_key(key: object) -> str | None:
    """Return the key, or None for an empty one."""
    if key is not None and not isinstance(key, str):
        raise FactInvalid("'key' must be text or null", param="key")
    cleaned = clean_text(key) if key else ""
    if len(cleaned) > MAX_KEY_LENGTH:
        raise FactInvalid(
            f"'key' has {len(cleaned)} characters; the maximum is {MAX_KEY_LENGTH}",
            param="key",
        )
    return cleaned or None


def _clean_date(name: str, at: object) -> datetime | None:
    if at is None:
        return None
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise FactInvalid(f"'{name}' must be a date with its time zone", param=name)
    return at


def check_interval(
    valid_from: datetime | None, valid_to: datetime | None, expires_at: datetime | None
) -> None:
    """Raise `FactInvalid` if an end precedes its beginning."""
    for name, end in (("valid_to", valid_to), ("expires_at", expires_at)):
        if valid_from is not None and end is not None and end <= valid_from:
            raise FactInvalid(f"'{name}' must be after 'valid_from'", param=name)


def _clean_status(status: object) -> str:
    if status in ("active", "pending_review"):
        return str(status)
    raise FactInvalid(
        f"'status' must be active or pending_review, got {status!r:.60}", param="status"
    )


def _clean_pinned(is_pinned: object) -> bool:
    if isinstance(is_pinned, bool):
        return is_pinned
    raise FactInvalid("'is_pinned' must be true or false", param="is_pinned")


CLEANERS: dict[str, Callable[[Any], Any]] = {
    "content": _clean_content,
    "category": _clean_category,
    "importance": _clean_importance,
    "key": clean_key,
    "is_pinned": _clean_pinned,
    "status": _clean_status,
    "valid_from": lambda at: _clean_date("valid_from", at),
    "valid_to": lambda at: _clean_date("valid_to", at),
    "expires_at": lambda at: _clean_date("expires_at", at),
}
