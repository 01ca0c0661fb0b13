"""Further rows in the transaction that stores a turn: they exist exactly if it does."""

from judges.runs import judge_queue
from tasks.models import Task
from turns.shadow_runs import shadow_queue
from turns.turn import EndedTurn


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


def run_hooks(ended: EndedTurn) -> None:
    """Complete the task of a turn, and enqueue the tasks that follow from its reply."""
    request = ended.turn.request
    if ended.outcome != "ok":
        if request.on_interruption is not None:
            request.on_interruption()
        return
    if request.on_end is not None:
        request.on_end(ended.reply, ended.turn.record)
    enqueue_judging(ended)
    if not ended.is_incognito:
        shadow_queue.enqueue_for_turn(ended)
