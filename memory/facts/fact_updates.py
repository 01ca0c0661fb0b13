"""What a person or an agent changes of a fact by hand."""

from datetime import datetime
from typing import Any

from memory.errors import KeyTaken
from memory.facts import point_in_time, public_ids
from memory.facts.change_set import Embedding, Ledger
from memory.facts.fact_validation import check_interval
from memory.models import Fact, Status


def apply(
    ledger: Ledger,
    fact: Fact,
    changes: dict[str, Any],
    *,
    by: str,
    reason: str,
    text: Embedding,
) -> None:
    """Note the changes, already cleaned, in the ledger.

    Raises `FactInvalid` where the dates contradict each other, and `KeyTaken`.
    """
    was = point_in_time.status_at(fact, ledger.now)
    values = {**_brought_back(fact, was, changes, ledger.now), **changes}
    values |= _authorship(fact, changes, by, ledger.now)
    check_interval(*(values.get(n, getattr(fact, n)) for n in ("valid_from", *ENDS)))
    _check_key(fact, values)
    action = _action(fact, was, values)
    ledger.change(fact, values, action=action, reason=reason, text=text)


ENDS = ("valid_to", "expires_at")


def _brought_back(
    fact: Fact, was: str, changes: dict[str, Any], now: datetime
) -> dict[str, Any]:
    """Return what must go for a fact to count again: links and ends in the past."""
    if changes.get("status") != "active" or was == "active":
        return {}
    passed = {
        name: None
        for name in ENDS
        if (end := getattr(fact, name)) is not None and end <= now
    }
    return {"superseded_by_id": None, **passed}


def _authorship(
    fact: Fact, changes: dict[str, Any], by: str, now: datetime
) -> dict[str, Any]:
    """Return who says it from now on: what a person has put right stays so."""
    if changes.get("content", fact.content) == fact.content:
        return {}
    is_person = by in ("user", "operator")
    return {"said_at": now, **({"source": by} if is_person else {})}


def _check_key(fact: Fact, values: dict[str, Any]) -> None:
    def after(name: str) -> Any:
        return values.get(name, getattr(fact, name))

    if after("key") is None or after("status") != Status.ACTIVE:
        return
    others = Fact.objects.filter(
        user_id=fact.user_id,
        category=after("category"),
        key=after("key"),
        status=Status.ACTIVE,
    ).exclude(id=fact.id)
    if other := others.first():
        raise KeyTaken(
            f"the key '{other.key}' of category '{other.category}' belongs to fact "
            f"{public_ids.write(other.id)}: {other.content:.100}; change or delete "
            "that one, or choose another key",
            param="key",
        )


def _action(fact: Fact, was: str, values: dict[str, Any]) -> str:
    status = values.get("status", was)
    if status != was:
        return "restored" if status == "active" else "held"
    is_pinned = values.get("is_pinned", fact.is_pinned)
    if is_pinned != fact.is_pinned:
        return "pinned" if is_pinned else "unpinned"
    return "updated"
