"""The start of a turn's safety checks: of its messages, by patterns."""

from dataclasses import replace
from functools import partial

from agents.config import AgentConfig
from config.sections import Config
from safety import check_runner
from safety.config import SAFETY
from safety.turn_safety import CheckedTurn, TurnSafety
from turns.turn import TurnRequest


def start(
    config: Config, request: TurnRequest, agent: AgentConfig
) -> TurnSafety | None:
    """Return the checks of a turn; None if its agent has none."""
    settings = config.get(SAFETY)
    checks = settings.checks and settings.checks_of(agent.name)
    if not checks:
        return None
    options = request.options
    turn = CheckedTurn(
        agent.name,
        request.turn_id,
        request.user_id,
        options.thread,
        options.is_incognito,
    )
    return TurnSafety(config, settings, checks, turn)


async def mask_input(request: TurnRequest, safety: TurnSafety) -> TurnRequest:
    """Check a request's messages by patterns; return it with what they mask.

    Before anything reads the messages, so that neither models nor tables have the rest.
    """
    messages = request.messages
    chars = sum(len(message.text) for message in messages)
    masked = await check_runner.run_rule(partial(safety.mask_input, messages), chars)
    return replace(request, messages=masked)
