"""Queues the judging of a reply, in the transaction that stores its turn."""

from django.db import transaction

from core.reply import Reply
from judges.runs import judge_queue
from tasks.queue import lifecycle, worker_notifier
from turns.turn import EndedTurn, Turn


def due(ended: EndedTurn) -> None:
    """Enqueue judge tasks for a reply, for each judge of its agent that samples it.

    Skips agents without judges, replies without text, replies with tool calls that the
    client has yet to run, and incognito turns, except those of synthetic users.
    """
    turn = ended.turn
    if not turn.agent.judges or not _has_judges(turn, ended.reply):
        return
    is_stored = not turn.request.options.is_incognito
    wanted = judge_queue.draw_tasks(
        turn.agent,
        turn_id=turn.request.turn_id,
        user_id=turn.user_id,
        experiment=turn.experiment,
        origin=turn.request.origin,
        material=None
        if is_stored
        else judge_queue.context_of_turn(turn.prompt, ended.reply),
    )
    if wanted:
        lifecycle.enqueue(wanted)
        transaction.on_commit(worker_notifier.notify)


def _has_judges(turn: Turn, reply: Reply) -> bool:
    is_hidden = turn.request.options.is_incognito and turn.request.origin != "smoke"
    return judge_queue.is_complete_reply(reply) and not is_hidden
