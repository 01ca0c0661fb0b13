"""Manual changes of a fact by a person or an agent."""

from datetime import datetime
from typing import Any

from memory.errors import KeyTaken
from memory.facts import point_in_time, public_ids
from memory.facts.change_set import ChangeSet, EmbeddingResult
from memory.facts.fact_validation import check_interval
from memory.models import Fact, FactStatus


def apply_changes(
    change_set: ChangeSet,
    fact: Fact,
    changes: dict[str, Any],
    *,
    by: str,
    reason: str,
    text: EmbeddingResult,
) -> None:
    """Record validated changes in the change set.

    Raises `FactInvalid` if the dates contradict each other, and `KeyTaken`.
    """
    old_status = point_in_time.status_at(fact, change_set.now)
    values = {
        **_reactivation_values(fact, old_status, changes, change_set.now),
        **changes,
    }
    values |= _authorship_values(fact, changes, by, change_set.now)
    check_interval(
        values.get("valid_from", fact.valid_from),
        values.get("valid_to", fact.valid_to),
        values.get("expires_at", fact.expires_at),
    )
    _check_key(fact, values)
    action = _history_action(fact, old_status, values)
    change_set.change(fact, values, action=action, reason=reason, text=text)


END_FIELDS = ("valid_to", "expires_at")


def _reactivation_values(
    fact: Fact, old_status: str, changes: dict[str, Any], now: datetime
) -> dict[str, Any]:
    """Return the values that make a fact active again: no links and no past ends."""
    if changes.get("status") != "active" or old_status == "active":
        return {}
    past_ends = {
        name: None
        for name in END_FIELDS
        if (end := getattr(fact, name)) is not None and end <= now
    }
    return {"superseded_by_id": None, **past_ends}


def _authorship_values(
    fact: Fact, changes: dict[str, Any], by: str, now: datetime
) -> dict[str, Any]:
    """Return `said_at`, and `source` if a person edits, for a fact whose text
    changes."""
    if changes.get("content", fact.content) == fact.content:
        return {}
    is_person = by in ("user", "operator")
    return {"said_at": now, **({"source": by} if is_person else {})}


def _check_key(fact: Fact, values: dict[str, Any]) -> None:
    def after(name: str) -> Any:
        return values.get(name, getattr(fact, name))

    if after("key") is None or after("status") != FactStatus.ACTIVE:
        return
    others = Fact.objects.filter(
        user_id=fact.user_id,
        category=after("category"),
        key=after("key"),
        status=FactStatus.ACTIVE,
    ).exclude(id=fact.id)
    if other := others.first():
        raise KeyTaken(
            f"the key '{other.key}' of category '{other.category}' belongs to fact "
            f"{public_ids.format_fact_id(other.id)}: {other.content:.100}; "
            "change or delete that one, or choose another key",
            param="key",
        )


def _history_action(fact: Fact, old_status: str, values: dict[str, Any]) -> str:
    status = values.get("status", old_status)
    if status != old_status:
        return "restored" if status == "active" else "flagged"
    is_pinned = values.get("is_pinned", fact.is_pinned)
    if is_pinned != fact.is_pinned:
        return "pinned" if is_pinned else "unpinned"
    return "updated"
