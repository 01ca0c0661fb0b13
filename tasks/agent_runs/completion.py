"""Closes tasks that were turns, in the turns' own transactions."""

from collections.abc import Sequence

from core.ids import TurnId
from core.reply import Reply
from core.trace import Call
from tasks.queue import lifecycle
from tasks.queue.claimed_task import Work


def by_reply(task: Work, turn_id: TurnId, reply: Reply, _: Sequence[Call]) -> None:
    """Close a task with what its agent said; raises `queue.Gone`."""
    lifecycle.done(task, reply.text or reply.refusal, turn_id=turn_id)


def if_ours(task: Work) -> None:
    """Let what an attempt that broke off said be stored; raises `queue.Gone`.

    Not where its user was erased meanwhile, nor where another attempt has begun.
    """
    lifecycle.hold(task)
