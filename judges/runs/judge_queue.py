"""Samples replies for judging: one task for each judge."""

import random
from collections.abc import Sequence
from typing import Any

from agents.config import AgentConfig
from config import live
from core.ids import TurnId, UserId
from core.messages import Message
from core.reply import Reply
from judges.config import JUDGES, JudgeConfig
from judges.scoring import judge_context
from judges.scoring.judge_context import JudgeContext
from tasks.queue.task_spec import TaskSpec

KIND = "judge"
PRIORITY = -10
"""Below all tasks that users wait for."""
MAX_FAILURES = 3
"""An unreadable answer fails the task at once."""
ORIGIN = "judge:"
"""Prefix of the origin of a judge's tasks, followed by the judge's name."""


def task_origin(judge: str) -> str:
    return f"{ORIGIN}{judge}"


def judge_of_origin(origin: str) -> str:
    return origin.removeprefix(ORIGIN)


def task_key(judge: str, turn_id: TurnId) -> str:
    """Return the idempotency key: a judge scores a turn only once."""
    return f"judge:{turn_id}:{judge}"


def is_complete_reply(reply: Reply) -> bool:
    """Return whether a reply is complete, without calls of the client's tools."""
    text = (reply.text or reply.refusal).strip()
    return bool(text) and reply.finish_reason != "tool_calls"


def context_of_turn(prompt: Sequence[Message], reply: Reply) -> JudgeContext:
    """Return the judge context of a turn that is not stored."""
    messages = [message for message in prompt if message.role != "system"]
    start = max(
        (index for index, message in enumerate(messages) if message.role == "user"),
        default=0,
    )
    return judge_context.build_context(
        messages[:start],
        [*messages[start:], *reply.exchange[:-1]],
        reply.text or reply.refusal,
    )


def sample_tasks(
    agent: AgentConfig,
    *,
    turn_id: TurnId,
    user_id: UserId,
    experiment: str = "",
    origin: str = "chat",
    context: JudgeContext | None = None,
) -> list[TaskSpec]:
    """Sample the agent's judges for a reply; return one task for each.

    `context` is the judge context, if no transcript has it.
    """
    judges = live.current().get(JUDGES)
    return [
        build_task(
            name,
            agent.name,
            turn_id=turn_id,
            user_id=user_id,
            experiment=experiment,
            reply_origin=origin,
            context=context,
        )
        for name in agent.judges
        # Skips a judge that was removed by an edit.
        if name in judges and _selects(judges[name], origin)
    ]


def _selects(judge: JudgeConfig, origin: str) -> bool:
    """Return whether a judge samples a reply; replies in smoke tests always count."""
    rate = judge.sampling_rate
    return rate > 0 if origin == "smoke" else is_sampled(rate)


def is_sampled(rate: float) -> bool:
    """Return True with this probability."""
    return random.random() < rate  # noqa: S311  not a secret


def build_task(
    judge: str,
    agent: str,
    *,
    turn_id: TurnId,
    user_id: UserId,
    experiment: str = "",
    reply_origin: str = "chat",
    context: JudgeContext | None = None,
) -> TaskSpec:
    payload: dict[str, Any] = {
        "judge": judge,
        "experiment": experiment,
        "origin": reply_origin,
    }
    if context is not None:
        payload["context"] = context.to_json()
    return TaskSpec(
        KIND,
        user_id,
        agent,
        payload=payload,
        origin=task_origin(judge),
        turn_id=turn_id,
        key=task_key(judge, turn_id),
        priority=PRIORITY,
        max_failures=MAX_FAILURES,
    )
