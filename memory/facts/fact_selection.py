"""The facts that an agent wants to forget, and the user's answer about them."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from core.errors import Invalid
from core.ids import TurnId, UserId
from memory.facts import forgetting, public_ids
from memory.models import Fact, PendingForgetting, StoredMessage
from memory.recall import search
from memory.recall.index import tokenizer
from memory.recall.types import Query
from memory.transcript import withholding

MAX_FACTS = 100
"""Facts of one question: to forget each takes some 0.1 s."""


@dataclass(frozen=True, slots=True)
class SelectedFact:
    public_id: str
    content: str


def select(
    user_id: UserId, *, fact_id: uuid.UUID | None, query: str | None
) -> list[SelectedFact]:
    """Return a user's fact, those that have all words of a query, or all facts.

    Raises `FactUnknown`, and `Invalid` if there are more than `MAX_FACTS`.
    """
    if fact_id is not None:
        facts = [Fact.objects.get_known(user_id, fact_id)]
    elif query is not None:
        facts = _with_words(user_id, query)
    else:
        known = Fact.objects.filter(user_id=user_id).exclude(status="deleted")
        facts = list(known.newest_first()[: MAX_FACTS + 1])
    if len(facts) > MAX_FACTS:
        raise Invalid(
            f"there are more than {MAX_FACTS} facts: give a query, or tell the user to "
            "delete their data in the application"
        )
    return [SelectedFact(fact.public_id, fact.content) for fact in facts]


def _with_words(user_id: UserId, query: str) -> list[Fact]:
    words = set(tokenizer.tokenize(query))
    hits = search.search_facts(user_id, Query(query), limit=MAX_FACTS + 1, status=None)
    return [
        hit.fact for hit in hits if words <= set(tokenizer.tokenize(hit.fact.content))
    ]


def ask(
    user_id: UserId, thread: str, turn_id: TurnId, facts: list[str], now: datetime
) -> None:
    """Store what a user is asked about, by public ids."""
    PendingForgetting.objects.ask(user_id, thread, turn_id, facts, now)


def forget_answered(
    user_id: UserId, thread: str, turn_id: TurnId, now: datetime, *, by: str
) -> list[str]:
    """Forget what the user was asked about in an earlier turn; return its public ids.

    The turn with the question names it, and is withheld. None if there is no question.
    """
    with transaction.atomic():
        question = PendingForgetting.objects.take(user_id, thread, turn_id, now)
        if question is None:
            return []
        fact_ids = list(map(public_ids.require_fact_id, question.fact_ids))
        forgetting.forget_all(user_id, fact_ids, by=by)
        asked = StoredMessage.objects.replies(user_id, [question.turn_id])
        withholding.withhold(user_id, list(asked.values_list("pk", flat=True)))
    return list(question.fact_ids)
