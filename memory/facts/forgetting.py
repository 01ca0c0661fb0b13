"""Forgetting of facts, with all that mentions them.

A forgotten fact leaves prompts and searches, now and `as_of` any time, and so do the
messages that mention it: those it was extracted from, copies of them, replies that used
it, and messages with the same words. See docs/forgetting.md.
"""

import uuid
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q, QuerySet

from core.ids import UserId
from memory.errors import FactUnknown
from memory.models import (
    Fact,
    FactChange,
    FactMessage,
    FactStatus,
    Passage,
    Session,
    StoredMessage,
    Summary,
)
from memory.models.sessions import SessionQuerySet
from memory.models.threads import SummaryQuerySet
from memory.recall import search
from memory.recall.index import tokenizer
from memory.recall.index.retrieval_types import RETRIEVAL_DEPTH
from memory.recall.types import Query
from memory.sessions import session_end
from memory.transcript import agent_states, withholding
from tasks.models import Task
from telemetry.models import ToolCall, Turn

MIN_WORDS = 3
"""Fewer words of a quote or a message ("yes, at home") are not about one fact."""
MAX_FORGOTTEN = 1000
"""The newest forgotten facts, which a new summary must not mention."""


def forget(
    user_id: UserId,
    fact_id: uuid.UUID,
    *,
    by: str,
    reason: str = "",
    purge: bool = False,
    only_held: bool = False,
) -> bool:
    """Forget a fact; return False if it was forgotten before.

    It and its history stay stored, to be restored; with `purge` they are deleted, and
    the messages that mention it are emptied. With `only_held`, a fact that is no longer
    held stays as it is. Raises `FactUnknown`.
    """
    fact = Fact.objects.get_known(user_id, fact_id)
    mentioning = _find_messages(fact)
    with transaction.atomic():
        withholding.lock_user(user_id)
        # Extraction may have linked further ones meanwhile.
        mentioning |= _linked_messages(fact)
        # First: an episode that is forgotten must not be written again.
        with fact.stored() as now:
            if only_held and not fact.is_held:
                return False
            deleted = {"status": FactStatus.DELETED.value}
            is_new = fact.change(deleted, "deleted", by=by, at=now, reason=reason)
        withheld = withholding.withhold(user_id, mentioning, purge=purge)
        _summaries_of(fact).make_empty(now)
        session_end.rewrite_episodes(_episodes_of(fact))
        _delete_lone_episodes(fact)
        agent_states.remove_mentions(user_id, _Wordings.of(fact).are_in)
        FactMessage.objects.link((fact.id, message_id) for message_id in mentioning)
        if purge:
            _purge(fact, withheld)
    return is_new


def forget_all(
    user_id: UserId, fact_ids: Iterable[uuid.UUID], *, by: str, reason: str = ""
) -> None:
    """Forget facts, as `forget` does; those that are unknown by now are skipped."""
    for fact_id in fact_ids:
        with suppress(FactUnknown):
            forget(user_id, fact_id, by=by, reason=reason)


def remove_from_states(user_id: UserId, fact_ids: Iterable[uuid.UUID]) -> None:
    """Remove facts from the states of agents, which a turn has changed since.

    Call it under the lock of the user's messages, in a transaction.
    """
    for fact in Fact.objects.filter(user_id=user_id, pk__in=fact_ids):
        agent_states.remove_mentions(user_id, _Wordings.of(fact).are_in)


def find_copies(
    user_id: UserId, messages: QuerySet[StoredMessage]
) -> list[tuple[uuid.UUID, int]]:
    """Return the copies of forgotten messages among others, with their facts."""
    links = FactMessage.objects.filter(
        fact__user_id=user_id, fact__status=FactStatus.DELETED, message__role="user"
    )
    facts = {
        text: fact_id
        for text, fact_id in links.values_list("message__text", "fact_id")
        if _is_about_one_fact(text)
    }
    copies = messages.filter(role="user", text__in=facts)
    return [(facts[text], number) for number, text in copies.values_list("pk", "text")]


@dataclass(frozen=True, slots=True)
class _Wordings:
    """The words of a fact, in all that it has ever been."""

    contents: Collection[frozenset[str]]
    quotes: Collection[frozenset[str]]

    @classmethod
    def of(cls, fact: Fact) -> "_Wordings":
        contents = set(map(_words, _all_values(fact, "content")))
        quotes = set(map(_words, _all_values(fact, "quote")))
        # Few words of a rule ("no emojis") are in messages that do not state it.
        least = MIN_WORDS if fact.is_rule else 1
        return cls(
            {words for words in contents if len(words) >= least},
            {words for words in quotes if len(words) >= MIN_WORDS},
        )

    def are_in(self, text: str) -> bool:
        words = _words(text)
        return any(each <= words for each in (*self.contents, *self.quotes))

    def are_half_in(self, text: str) -> bool:
        """Return whether half the words of the fact are in a reply that knew it."""
        words = _words(text)
        return any(2 * len(each & words) >= len(each) for each in self.contents)


def _all_values(fact: Fact, name: str) -> set[str]:
    """Return the values that a field of a fact has had."""
    earlier = ((change.before or {}).get(name) for change in fact.changes.all())
    return {getattr(fact, name), *filter(None, earlier)}


def _words(text: str) -> frozenset[str]:
    return frozenset(tokenizer.tokenize(tokenizer.strip_subject(text)))


def _is_about_one_fact(text: str) -> bool:
    """Return whether copies of a message are about the same: not those of "Yes."."""
    return len(_words(text)) >= MIN_WORDS


def _linked_messages(fact: Fact) -> set[int]:
    links = FactMessage.objects.filter(fact=fact)
    found = set(links.values_list("message_id", flat=True))
    return found if fact.message_id is None else found | {fact.message_id}


def _find_messages(fact: Fact) -> set[int]:
    user_id, wordings = UserId(fact.user_id), _Wordings.of(fact)
    found = _linked_messages(fact)
    of_user = StoredMessage.objects.filter(thread__user_id=user_id)
    sources = of_user.filter(pk__in=found, role="user")
    texts = filter(_is_about_one_fact, sources.values_list("text", flat=True))
    found |= set(of_user.filter(text__in=set(texts)).values_list("pk", flat=True))
    for words in (*wordings.contents, *wordings.quotes):
        query = Query(" ".join(sorted(words)))
        hits = search.search_messages(user_id, query, limit=RETRIEVAL_DEPTH)
        found |= {hit.id for hit in hits if wordings.are_in(hit.text)}
    if fact.is_rule:
        return found  # Replies follow a rule, and do not tell it.
    knowing = Turn.objects.filter(user_id=user_id, recalled__contains=fact.public_id)
    replies = of_user.filter(role="assistant", turn_id__in=knowing.values("pk"))
    found |= {
        number
        for number, text in replies.values_list("pk", "text").iterator()
        if wordings.are_half_in(text)
    }
    return found


def mentions_forgotten_fact(user_id: UserId, text: str) -> bool:
    """Return whether a text has all words of a fact that the user has forgotten."""
    return forgotten_in(user_id)(text)


def forgotten_in(user_id: UserId) -> Callable[[str], bool]:
    """Return a function that does the same for several texts."""
    facts = Fact.objects.filter(user_id=user_id, status=FactStatus.DELETED)
    found = facts.prefetch_related("changes").order_by("-updated_at")[:MAX_FORGOTTEN]
    forgotten = list(map(_Wordings.of, found))
    return lambda text: any(wordings.are_in(text) for wordings in forgotten)


def _summaries_of(fact: Fact) -> SummaryQuerySet:
    """Return the summaries that mention a fact, whatever messages they are of."""
    wordings = _Wordings.of(fact)
    rows = Summary.objects.filter(thread__user_id=fact.user_id)
    mentioning = [
        number
        for number, text in rows.values_list("pk", "text")
        if wordings.are_in(text)
    ]
    return rows.filter(pk__in=mentioning)


def _episodes_of(fact: Fact) -> SessionQuerySet:
    """Return the sessions whose episodes mention another fact."""
    wordings = _Wordings.of(fact)
    rows = Session.objects.filter(user_id=fact.user_id, episode__isnull=False)
    rows = rows.exclude(episode__status=FactStatus.DELETED)
    contents = rows.exclude(episode=fact).values_list("pk", "episode__content")
    mentioning = [number for number, text in contents if wordings.are_in(text)]
    return rows.filter(pk__in=mentioning)


def _delete_lone_episodes(fact: Fact) -> None:
    """Delete other episodes that mention a fact, and whose thread is deleted."""
    wordings = _Wordings.of(fact)
    rows = Fact.objects.filter(
        user_id=fact.user_id, category="episode", session__isnull=True
    )
    known = rows.exclude(status=FactStatus.DELETED).exclude(pk=fact.pk)
    contents = known.values_list("pk", "content")
    mentioning = [pk for pk, content in contents.iterator() if wordings.are_in(content)]
    Passage.objects.unindex(fact.user_id, fact__in=mentioning)
    rows.filter(pk__in=mentioning).delete()


def _purge(fact: Fact, emptied: Collection[int]) -> None:
    """Delete a fact, and what histories of others and records of turns say of it."""
    messages = StoredMessage.objects.filter(pk__in=emptied)
    turn_ids = set(messages.values_list("turn_id", flat=True))
    turns = Turn.objects.filter(user_id=fact.user_id)
    turns.filter(pk__in=turn_ids).update(user_message="")
    calls = ToolCall.objects.filter(turn__in=turns)
    named = Q(arguments__contains=fact.public_id) | Q(result__contains=fact.public_id)
    calls.filter(Q(turn__in=turn_ids) | named).update(arguments="", result="")
    jobs = Task.objects.extractions().filter(user_id=fact.user_id)
    jobs.filter(turn_id__in=turn_ids).update(result="")
    changes = FactChange.objects.filter(user_id=fact.user_id)
    for content in _all_values(fact, "content"):
        # Reasons are cut at 500 characters.
        changes.filter(reason__contains=content[:400]).update(reason="")
    fact.delete()
