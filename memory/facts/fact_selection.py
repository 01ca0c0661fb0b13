"""The facts that an agent wants to forget, and the user's answer about them."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from core.errors import Invalid
from core.ids import TurnId, UserId
from memory.errors import FactUnknown
from memory.facts import forgetting, public_ids
from memory.models import Fact, FactStatus, PendingForgetting, StoredMessage
from memory.recall.index import tokenizer
from memory.transcript import withholding

MAX_FACTS = 100
"""Facts of one question: to forget each takes some 0.1 s."""


HIDDEN = "(pending review)"
PENDING = FactStatus.PENDING_REVIEW


@dataclass(frozen=True, slots=True)
class SelectedFact:
    public_id: str
    content: str


def select_facts(
    user_id: UserId,
    *,
    fact_id: uuid.UUID | None,
    query: str | None,
    scope: str | None = None,
) -> list[SelectedFact]:
    """Return a user's fact, those that have all words of a query, or all facts.

    Forgotten ones are unknown, and with a scope those of others. Raises `FactUnknown`,
    and `Invalid` if there are more than `MAX_FACTS`.
    """
    facts = Fact.objects.filter(user_id=user_id).exclude(status="deleted")
    if scope is not None:
        facts = facts.filter(scope=scope)
    if fact_id is not None:
        facts = facts.filter(pk=fact_id)
    rows = facts.newest_first().values_list("pk", "content", "status")
    if query is not None:
        words = set(tokenizer.tokenize(query))
        found = [row for row in rows if words <= set(tokenizer.tokenize(row[1]))]
    else:
        found = list(rows[: MAX_FACTS + 1])
    if fact_id is not None and not found:
        raise FactUnknown
    if len(found) > MAX_FACTS:
        raise Invalid(
            f"there are more than {MAX_FACTS} facts: give a query, or tell the user to "
            "delete their data in the application"
        )
    return [
        # What is pending review may be an instruction: no agent sees it.
        SelectedFact(
            public_ids.format_fact_id(pk), text if status != PENDING else HIDDEN
        )
        for pk, text, status in found
    ]


def store_question(
    user_id: UserId, thread: str, turn_id: TurnId, facts: list[str], now: datetime
) -> None:
    """Store what a user is asked about, by public ids."""
    PendingForgetting.objects.store_question(user_id, thread, turn_id, facts, now)


def forget_confirmed(
    user_id: UserId,
    thread: str,
    turn_id: TurnId,
    facts: list[str],
    now: datetime,
    *,
    by: str,
) -> bool:
    """Forget facts that the user was asked about in an earlier turn.

    The turn with the question mentions them, and is withheld. Returns False if there is
    no question about all of them. Each is forgotten in a transaction of its own,
    because one takes some 0.1 s, in which others wait.
    """
    asked_in = PendingForgetting.objects.take(user_id, thread, turn_id, facts, now)
    if asked_in is None:
        return False
    fact_ids = list(map(public_ids.require_fact_id, facts))
    forgetting.forget_all(user_id, fact_ids, by=by)
    asked = StoredMessage.objects.replies(user_id, [asked_in])
    withholding.withhold(user_id, list(asked.values_list("pk", flat=True)))
    return True
