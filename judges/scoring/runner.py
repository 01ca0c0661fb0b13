"""Asks a judge's model about a reply: one call for all criteria, or two."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from config.sections import Config
from core import token_usage
from core.events import Usage
from core.messages import Message
from core.reply import Reply
from judges.config import JudgeConfig
from judges.errors import JudgeResultUnreadable, JudgeTimedOut
from judges.scoring import prompt, verdict_parser
from judges.scoring.judge_context import JudgeContext
from judges.scoring.verdict_parser import JudgeResult, ResultUnreadable
from providers import client, registry
from providers.config import PROVIDERS
from providers.errors import ContentFiltered, RequestRefused
from providers.model_request import ModelRequest
from providers.pricing import call_costs

LOCAL_TOKENS = 400
"""Maximum answer tokens of the local model, because it delays agents' replies."""


OPTIONAL_PARAMETERS = frozenset({"response_format", "temperature"})
"""Parameters that improve answers but are not required."""

_unsupported_parameters: dict[tuple[str, str | None, str], frozenset[str]] = {}
"""Optional parameters that models have refused in this process, by provider, its
address and model.
"""


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
    try:
        async with asyncio.timeout(judge.timeout_seconds):
            reply = await _ask_with_supported_parameters(config, judge, messages, user)
    except TimeoutError as exc:
        raise JudgeTimedOut(
            f"judge '{judge.name}': {judge.model} did not answer within "
            f"{judge.timeout_seconds:g} seconds",
            provider=judge.provider,
        ) from exc
    parameters = _parameters(config, judge)
    usage = token_usage.count_usage(
        messages, reply, response_format=parameters.get("response_format")
    )
    now = datetime.now(UTC)
    cost.add(
        usage, call_costs.call_cost(config, judge.provider, judge.model, usage, at=now)
    )
    return reply


async def _ask_with_supported_parameters(
    config: Config, judge: JudgeConfig, messages: Sequence[Message], user: str
) -> Reply:
    """Call the model with as many optional parameters as it accepts.

    Reasoning models accept no temperature, and many servers no schema. Parameters that
    a model refused are not sent again.
    """
    base_url = config.get(PROVIDERS)[judge.provider].base_url
    key = (judge.provider, base_url, judge.model)
    refused = _unsupported_parameters.get(key, frozenset())
    wanted = _parameters(config, judge)
    while True:
        parameters = {
            name: value for name, value in wanted.items() if name not in refused
        }
        try:
            reply = await _call_model(config, judge, messages, parameters, user)
        except ContentFiltered:
            raise
        except RequestRefused as exc:
            newly_refused = _rejected_parameters(exc, parameters)
            if not newly_refused:
                raise
            refused |= newly_refused
        else:
            if refused:
                _unsupported_parameters[key] = refused
            return reply


def _rejected_parameters(
    error: RequestRefused, parameters: Mapping[str, Any]
) -> frozenset[str]:
    """Return the optional parameters that a model may have refused."""
    optional = OPTIONAL_PARAMETERS & parameters.keys()
    name = (error.param or "").partition(".")[0]
    return frozenset({name} if name in optional else optional)


def _parameters(config: Config, judge: JudgeConfig) -> dict[str, Any]:
    """Return the optional parameters: low temperature and the response format."""
    provider = config.get(PROVIDERS)[judge.provider]
    parameters: dict[str, Any] = {}
    if not registry.find_unsupported_parameters(provider, ["temperature"]):
        parameters["temperature"] = 0
    if registry.structured_outputs(provider) == "native":
        parameters["response_format"] = prompt.response_format(judge.rubrics)
    if judge.max_tokens is not None:
        parameters["max_tokens"] = judge.max_tokens
    elif provider.kind == "local":
        parameters["max_tokens"] = LOCAL_TOKENS
    return parameters


async def _call_model(
    config: Config,
    judge: JudgeConfig,
    messages: Sequence[Message],
    parameters: Mapping[str, Any],
    user: str,
) -> Reply:
    provider = config.get(PROVIDERS)[judge.provider]
    call = ModelRequest(
        judge.model, messages, parameters=parameters, stream=False, user=user
    )
    reply = Reply()
    async with aclosing(client.run(judge.provider, provider, call)) as events:
        async for event in events:
            reply.add(event)
    return reply
