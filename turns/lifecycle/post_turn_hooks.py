"""Hooks that write more rows in the transaction that stores a turn.

The rows exist exactly if the turn does: the turn's task is completed, and follow-up
tasks are enqueued.
"""

from collections.abc import Callable
from dataclasses import dataclass

from judges.runs import judge_queue
from tasks.models import Task
from telemetry.types import Outcome
from turns.shadow_runs import shadow_queue
from turns.turn import EndedTurn


@dataclass(frozen=True, slots=True)
class Hook:
    """A function that may write more rows about a turn.

    Runs on a database thread, so it must return quickly if there is nothing to write.
    """

    write: Callable[[EndedTurn], None]
    outcomes: tuple[Outcome, ...] = ("ok",)
    is_for_incognito: bool = False
    """Whether it also runs after an incognito turn."""


def enqueue_judging(ended: EndedTurn) -> None:
    """Enqueue judge tasks for a reply, for each judge of its agent that samples it.

    Skips agents without judges, replies without text, replies with tool calls that the
    client has yet to run, and incognito turns, except those of synthetic users.
    """
    turn = ended.turn
    if not turn.agent.judges or not judge_queue.is_complete_reply(ended.reply):
        return
    request, is_incognito = turn.request, ended.is_incognito
    if is_incognito and request.origin != "smoke":
        return
    specs = judge_queue.sample_tasks(
        turn.agent,
        turn_id=request.turn_id,
        user_id=turn.user_id,
        experiment=turn.experiment,
        origin=request.origin,
        context=judge_queue.context_of_turn(turn.prompt, ended.reply)
        if is_incognito or turn.history_mode == "none"
        else None,
    )
    Task.objects.enqueue(specs)


HOOKS = (
    # Replies to synthetic users are judged, although their turns are incognito.
    Hook(enqueue_judging, is_for_incognito=True),
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
            hook.is_for_incognito or not ended.is_incognito
        ):
            hook.write(ended)
