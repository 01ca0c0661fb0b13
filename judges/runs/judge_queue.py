"""Which replies are judged: drawn by chance, one task for each judge."""

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
from tasks.queue.lifecycle import TaskSpec

KIND = "judge"
PRIORITY = -10
"""Below all that somebody waits for."""
MAX_FAILURES = 3
"""Of a provider that is down, say; an answer that cannot be read fails at once."""
ORIGIN = "judge:"
"""What the origin of a judge's tasks begins with; its name follows."""


def task_origin(judge: str) -> str:
    """Return what a judge's tasks have as their origin."""
    return f"{ORIGIN}{judge}"


def judge_of_origin(origin: str) -> str:
    """Return whose tasks have this origin."""
    return origin.removeprefix(ORIGIN)


def task_key(judge: str, turn_id: TurnId) -> str:
    """Return what is judged once only."""
    return f"judge:{turn_id}:{judge}"


def is_complete_reply(reply: Reply) -> bool:
    """Return whether a reply is an answer, and no call of the client's tools."""
    said = (reply.text or reply.refusal).strip()
    return bool(said) and reply.finish_reason != "tool_calls"


def context_of_turn(prompt: Sequence[Message], reply: Reply) -> JudgeContext:
    """Return what a judge reads of a turn that is stored nowhere."""
    said = [message for message in prompt if message.role != "system"]
    answered = max(
        (place for place, message in enumerate(said) if message.role == "user"),
        default=0,
    )
    return judge_context.build_context(
        said[:answered],
        [*said[answered:], *reply.exchange[:-1]],
        reply.text or reply.refusal,
    )


def draw_tasks(
    agent: AgentConfig,
    *,
    turn_id: TurnId,
    user_id: UserId,
    experiment: str = "",
    origin: str = "chat",
    material: JudgeContext | None = None,
) -> list[TaskSpec]:
    """Draw which of an agent's judges score a reply; return the tasks that do it.

    `material` is what they read, where no transcript has it.
    """
    judges = live.current().get(JUDGES)
    return [
        build_task(
            *(name, agent.name),
            turn_id=turn_id,
            user_id=user_id,
            experiment=experiment,
            reply_origin=origin,
            material=material,
        )
        for name in agent.judges
        # One that an edit took away is no longer asked.
        if name in judges and _is_sampled(judges[name], origin)
    ]


def _is_sampled(judge: JudgeConfig, origin: str) -> bool:
    """Draw whether a reply falls to a judge; one that is said in a test always does."""
    rate = judge.sampling_rate
    return rate > 0 if origin == "smoke" else draw(rate)


def draw(rate: float) -> bool:
    """Draw whether something is done, anew each time."""
    return random.random() < rate  # noqa: S311  no secret hangs on it


def build_task(
    judge: str,
    agent: str,
    *,
    turn_id: TurnId,
    user_id: UserId,
    experiment: str = "",
    reply_origin: str = "chat",
    material: JudgeContext | None = None,
) -> TaskSpec:
    """Return the task of scoring one reply by one judge."""
    payload: dict[str, Any] = {
        "judge": judge,
        "experiment": experiment,
        "origin": reply_origin,
    }
    if material is not None:
        payload["material"] = material.to_json()
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
