"""Deletion of messages, and of whole threads: at a user's request, or by age.

Facts that were extracted from them stay: users delete those by their ids. Facts that
are recalled in one thread only are deleted with it.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

from django.db import transaction
from django.db.models import F, Max, Min
from django.db.models.functions import Greatest

from core.ids import TurnId, UserId
from memory.models import (
    Fact,
    FactMessage,
    Owner,
    Passage,
    PendingForgetting,
    Session,
    StoredCompletion,
    StoredMessage,
    Summary,
    Thread,
)
from memory.sessions import session_end
from memory.transcript import branches
from memory.transcript.turn_lookup import MAX_TURN_MESSAGES


def delete_turn(user_id: UserId, turn_id: TurnId) -> bool:
    """Delete the messages of a user's turn; return whether it had a reply."""
    with transaction.atomic():
        Thread.objects.lock_of_user(user_id)
        reply = StoredMessage.objects.find_reply(user_id, turn_id)
        if reply is None:
            return False
        end = branches.reply_end(reply)
        first = max(reply.position - MAX_TURN_MESSAGES, 0)
        rows = StoredMessage.objects.of_thread(reply.thread_id).filter(
            turn_id=turn_id, position__range=(first, end)
        )
        _delete_messages(user_id, reply.thread_id, list(rows.values_list("id")))
    return True


def delete_message(user_id: UserId, message_id: int) -> None:
    """Delete one message of a user."""
    with transaction.atomic():
        Thread.objects.lock_of_user(user_id)
        message = StoredMessage.objects.filter(
            pk=message_id, thread__user_id=user_id
        ).first()
        if message is not None:
            _delete_messages(user_id, message.thread_id, [(message.pk,)])


def _delete_messages(user_id: UserId, thread_id: int, rows: list[tuple[int]]) -> None:
    """Delete messages of a thread, the texts for their search, and their summaries."""
    # Extraction holds this lock while it makes passages and facts of the messages.
    Owner.objects.lock(user_id, datetime.now(UTC))
    # Locked before the messages, as when turns are stored.
    Thread.objects.select_for_update(no_key=True).get(pk=thread_id)
    messages = StoredMessage.objects.filter(pk__in=[pk for (pk,) in rows])
    range_ = messages.aggregate(first=Min("position"), last=Max("position"))
    first, last = range_["first"], range_["last"]
    if first is None:
        return
    sessions = Session.objects.covering(thread_id, first, last)
    session_end.rewrite_episodes(sessions.replaceable())
    # Other processes read the thread again, since its revision differs.
    Thread.objects.branch_off(thread_id, first - 1)
    Passage.objects.unindex(user_id, message__in=messages)
    Fact.objects.filter(message__in=messages).update(message=None)
    messages.delete()


def delete_thread(user_id: UserId, name: str, *, keeps_episodes: bool = False) -> bool:
    """Delete a user's thread with all its messages; return whether it existed.

    Its sessions go with it, and so do their episodes, unless these are kept.
    """
    with transaction.atomic():
        Thread.objects.lock_of_user(user_id)
        threads = Thread.objects.filter(user_id=user_id, name=name)
        if not threads.exists():
            return False
        Owner.objects.lock(user_id, datetime.now(UTC))
        thread = threads.select_for_update().get()
        Passage.objects.unindex(user_id, message__thread=thread)
        # Otherwise a new thread of the same name would recall them.
        own_facts = Fact.objects.of_thread(user_id, name)
        Passage.objects.unindex(user_id, fact__in=own_facts)
        own_facts.delete()
        Fact.objects.filter(message__thread=thread).update(message=None)
        FactMessage.objects.filter(message__thread=thread).delete()
        Summary.objects.filter(thread=thread).delete()
        if not keeps_episodes:
            Session.objects.filter(thread=thread).delete_episodes()
        PendingForgetting.objects.filter(user_id=user_id, thread=name).delete()
        StoredCompletion.objects.filter(message__thread=thread).delete()
        # One DELETE: Django would read each message to find what refers to it.
        thread.messages.all()._raw_delete(thread.messages.db)
        thread.delete()
    return True


def delete_old_messages(ids: Sequence[int]) -> None:
    """Delete messages by their rows, and the summaries that are about them alone.

    Later summaries stay. A thread that has no messages left is deleted. Its episodes
    are facts, which have an age of their own.
    """
    found = StoredMessage.objects.filter(pk__in=ids).only("thread_id")
    by_thread = defaultdict(list)
    for row in found.select_related("thread"):
        by_thread[row.thread].append(row.pk)
    for thread, message_ids in by_thread.items():
        _delete_oldest(thread, message_ids)


def _delete_oldest(thread: Thread, message_ids: Sequence[int]) -> None:
    user_id = UserId(thread.user_id)
    with transaction.atomic():
        Thread.objects.lock_of_user(user_id)
        Owner.objects.lock(user_id, datetime.now(UTC))
        threads = Thread.objects.filter(pk=thread.pk)
        if not threads.select_for_update(no_key=True).exists():
            return
        messages = StoredMessage.objects.filter(pk__in=message_ids)
        Passage.objects.unindex(user_id, message__in=messages)
        Fact.objects.filter(message__in=messages).update(message=None)
        messages.only("pk").delete()
        first = StoredMessage.objects.of_thread(thread.pk).first()
        if first is None:
            delete_thread(user_id, thread.name, keeps_episodes=True)
            return
        Summary.objects.filter(thread=thread, end_position__lte=first.position).delete()
        threads.update(
            # Prompts do not look for messages before it.
            summarized_until=Greatest("summarized_until", first.position),
            # Other processes read the thread again, since its revision differs.
            revision=F("revision") + 1,
        )
