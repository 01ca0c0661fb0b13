"""What follows from a turn that ended well, written in its own transaction.

So that it is there exactly if the turn is: the task it was is closed, and what is to
be done about it in the background waits in the queue.
"""

from collections.abc import Callable
from dataclasses import dataclass

from core.reply import Reply
from telemetry.types import Record
from turns.turn import Turn


@dataclass(frozen=True, slots=True)
class Ended:
    """A turn that ended well."""

    turn: Turn
    reply: Reply
    record: Record


Follower = Callable[[Ended], None]

_followers: list[Follower] = []


def follow(follower: Follower) -> None:
    """Have tables be written to about every turn that ended well.

    For apps above this one, when they are loaded. It runs on the database's thread, in
    the turn's transaction, and decides quickly that there is nothing to write.
    """
    if follower not in _followers:
        _followers.append(follower)


def write(ended: Ended) -> None:
    """Write all that follows from a turn."""
    on_end = ended.turn.request.on_end
    if on_end is not None:
        on_end(ended.reply, ended.turn.record)
    for follower in _followers:
        follower(ended)
