"""Hooks that write more rows in the transaction that stores a turn.

The rows exist exactly if the turn does: the turn's task is completed, and follow-up
tasks are enqueued.
"""

from collections.abc import Callable
from dataclasses import dataclass

from telemetry.types import Outcome
from turns.lifecycle import judge_hook
from turns.shadow_runs import shadow_queue
from turns.turn import EndedTurn


@dataclass(frozen=True, slots=True)
class Hook:
    """A function that may write more rows about a turn.

    It runs on a database thread, so it must return quickly if there is nothing to
    write.
    """

    write: Callable[[EndedTurn], None]
    outcomes: tuple[Outcome, ...] = ("ok",)
    is_for_incognito: bool = False
    """Whether it also runs after an incognito turn."""


HOOKS = (
    # Replies to synthetic users are judged, and their turns are incognito.
    Hook(judge_hook.due, is_for_incognito=True),
    Hook(shadow_queue.enqueue_for_turn),
)
"""In the order in which they run."""


def run_hooks(ended: EndedTurn) -> None:
    """Run the `on_end` callback of the request, then the hooks."""
    request = ended.turn.request
    if ended.outcome == "ok" and request.on_end is not None:
        request.on_end(ended.reply, ended.turn.record)
    if ended.outcome != "ok" and request.on_interruption is not None:
        request.on_interruption()
    for hook in HOOKS:
        if ended.outcome in hook.outcomes and (
            hook.is_for_incognito or not request.options.is_incognito
        ):
            hook.write(ended)
