"""Asks a judge's model about a reply: one call for all criteria, or two."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from config.sections import Config
from core.events import Usage
from core.messages import Message
from core.reply import Reply
from judges.config import JudgeConfig
from judges.errors import JudgeResultUnreadable, JudgeTimedOut
from judges.scoring import prompt, verdict_parser
from judges.scoring.judge_context import JudgeContext
from judges.scoring.verdict_parser import JudgeResult, ResultUnreadable
from providers import json_answers
from providers.config import PROVIDERS
from providers.json_answers import AnsweringModel
from providers.pricing import call_costs


@dataclass(slots=True)
class JudgingCost:
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_micro_usd: int | None = 0
    """None if no price is known."""

    def add(self, usage: Usage, cost_micro_usd: int | None) -> None:
        total = self + JudgingCost(1, usage, cost_micro_usd)
        self.calls, self.usage = total.calls, total.usage
        self.cost_micro_usd = total.cost_micro_usd

    def __add__(self, other: "JudgingCost") -> "JudgingCost":
        costs = self.cost_micro_usd, other.cost_micro_usd
        return JudgingCost(
            self.calls + other.calls,
            self.usage + other.usage,
            None if None in costs else sum(filter(None, costs)),
        )


async def ask_judge(
    config: Config,
    judge: JudgeConfig,
    context: JudgeContext,
    *,
    user: str,
    cost: JudgingCost,
) -> dict[str, JudgeResult]:
    """Return a judge's scores of a reply, by criterion.

    Asks a second time after an unreadable answer. Usage is added to `cost` as it
    occurs, so that it is known even if this raises `JudgeResultUnreadable`,
    `JudgeTimedOut`, or an error of `providers.errors`.
    """
    messages = prompt.build_messages(judge.rubrics, context)
    problem = ""
    for _ in range(2):
        reply = await _ask_with_timeout(config, judge, messages, user, cost)
        text = reply.text or reply.refusal
        try:
            return verdict_parser.parse_results(text, judge.rubrics)
        except ResultUnreadable as exc:
            problem = str(exc)
            is_complete = reply.finish_reason != "length"
            messages = [
                *messages,
                *prompt.correction_messages(
                    judge.rubrics, text, problem, is_complete=is_complete
                ),
            ]
    raise JudgeResultUnreadable(
        f"judge '{judge.name}': {judge.model}'s answer could not be read: {problem}",
        provider=judge.provider,
    )


async def _ask_with_timeout(
    config: Config,
    judge: JudgeConfig,
    messages: Sequence[Message],
    user: str,
    cost: JudgingCost,
) -> Reply:
    model = AnsweringModel(
        judge.provider,
        config.get(PROVIDERS)[judge.provider],
        judge.model,
        prompt.response_format(judge.rubrics),
        judge.max_tokens,
        user,
    )
    try:
        async with asyncio.timeout(judge.timeout_seconds):
            reply = await json_answers.ask(model, messages)
    except TimeoutError as exc:
        raise JudgeTimedOut(
            f"judge '{judge.name}': {judge.model} did not answer within "
            f"{judge.timeout_seconds:g} seconds",
            provider=judge.provider,
        ) from exc
    usage = model.count_usage(messages, reply)
    now = datetime.now(UTC)
    cost.add(
        usage, call_costs.call_cost(config, judge.provider, judge.model, usage, at=now)
    )
    return reply
